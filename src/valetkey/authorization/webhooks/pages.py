"""Pages about webhooks in the console and for teams of apps: list, log, forms, operations."""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.permissions import (
    NOTHING,
    Actor,
    ActorPermissions,
    Permission,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
    with_query,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    ConfirmationPages,
    Confirmed,
    Subject,
)
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    RecentEvents,
    Related,
    activity_about,
    facts,
)
from valetkey.authorization.site.admin.objects import (
    DISABLED,
    FAILING,
    Line,
    LineButton,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    code,
    since,
    since_or_none,
    text,
    unsorted,
    words,
)
from valetkey.authorization.site.admin.references import suggestions
from valetkey.authorization.site.app_team import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    confirmed_at,
    member_of_app,
    owner_of_app,
)
from valetkey.authorization.site.page import (
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    Requirement,
    SeeOther,
    Show,
    VisitorRequest,
)
from valetkey.authorization.site.shown_once import (
    COPIED,
    COPY_NOW,
    COPY_THE_SECRET,
    NEW_SECRET,
    NewSecretPage,
    ShownValue,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks.model import (
    ADDRESS,
    APP_EVENTS,
    EVENT_EXPIRED,
    FULL,
    GONE,
    MOST_WEBHOOKS,
    MOST_WEBHOOKS_OF_APP,
    OPERATOR,
    OWNER,
    TEST,
    UNDELIVERED,
    Webhook,
    WebhookAttempt,
)
from valetkey.authorization.webhooks.operations import (
    CHANGE_WEBHOOK,
    CREATE_WEBHOOK,
    REMOVE_WEBHOOK,
    WEBHOOKS,
    WebhookSecretShown,
    WebhookShown,
    webhook_tag,
)
from valetkey.authorization.webhooks.rules import (
    TeamMember,
    app_of,
    no_such_webhook,
    require_access,
)
from valetkey.authorization.webhooks.storage import WebhookQueue, Webhooks
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked, path_segment
from valetkey.web.body import Form

_ID = 100
_TITLE = translatable("Webhooks")

R = TypeVar("R", bound=VisitorRequest)

_WORDS: Words = {
    "url": (
        translatable("Address"),
        translatable("The https address of the receiver, on port 443 of a public host."),
    ),
    "events": (
        translatable("Events"),
        translatable("Names as in the audit log. Leave empty for every event."),
    ),
    "description": (translatable("Description"), translatable("What it is for.")),
}
_APP_WORDS: Words = {
    **_WORDS,
    "events": (translatable("Events"), translatable("Select none to send all of these.")),
}


BUTTONS = Buttons.below("/webhooks/{webhook_id}", of=WEBHOOKS)


class Area(Struct, Generic[R], frozen=True):
    """The differences between the console and the area of apps' teams.

    `acts` is what an operation on a webhook requires. The operations check the `actor` again;
    `powers` decide what a page offers.
    """

    path: str
    frame: str
    sees: Requirement[R]
    changes: Requirement[R]
    acts: Requirement[R]
    words: Words
    most: int
    actor: Callable[[R], Actor]
    permissions_of: Callable[[R], ActorPermissions]
    head: Callable[[R], AppHead | None]
    #: The heading of the navigation above it, "" for none.
    section: str = ""
    #: The events that can be chosen; empty for all.
    events: Collection[str] = ()

    def may(self, request: R) -> bool:
        """Return whether the user may change webhooks."""
        return self.permissions_of(request).allow(Permission.SETTINGS)

    def at(self, request: R, webhook_id: str = "") -> str:
        """Return the address of the list or of a webhook."""
        head = self.head(request)
        address = self.path if head is None else head.path(self.path)
        return f"{address}/{path_segment(webhook_id)}" if webhook_id else address

    def webhook_in_path(self, tx: Transaction, request: R) -> Webhook:
        """Return the webhook in the path. Raises Refused (not found), also for another owner's."""
        actor, text = self.actor(request), request.arguments["webhook_id"]
        require_access(tx, actor, changes=False)
        fits = text.isascii() and text.isprintable() and len(text) <= _ID
        webhook = Webhooks.of(tx).find(text) if fits else None
        if webhook is None or webhook.client_id != app_of(actor):
            raise no_such_webhook()
        return webhook


_OF_OWNER = ActorPermissions(None, frozenset({Permission.SETTINGS}))


async def _owner(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "webhooks")


CONSOLE: Area[AdminRequest] = Area(
    ADDRESS,
    "admin/frame.html",
    administrator(),
    administrator(Permission.SETTINGS, recent=True),
    BUTTONS.requirement,
    _WORDS,
    MOST_WEBHOOKS,
    lambda request: request.actor,
    lambda request: request.permissions,
    lambda _: None,
    section=SERVER,
)


def of_team(frame: str) -> Area[AppRequest]:
    """Return the pages of an app's team, in this template of their area."""
    return Area(
        f"{APP}/webhooks",
        frame,
        member_of_app,
        _owner,
        _owner,
        _APP_WORDS,
        MOST_WEBHOOKS_OF_APP,
        lambda request: TeamMember(request.user.uid, request.client.id),
        lambda request: _OF_OWNER if request.app.membership.owns else NOTHING,
        lambda request: request.head,
        CONFIGURATION,
        tuple(APP_EVENTS),
    )


_STATES = {
    "": badge(translatable("Active")),
    "failing": FAILING,
    OPERATOR: DISABLED,
    OWNER: DISABLED,
}
_FAULT = badge(translatable("Disabled: receiver failed"), "alarm")
_NOTES = {
    GONE: translatable(
        "The receiver responded with status 410: it no longer exists. Fix it or change the"
        " address, then enable the webhook."
    ),
    FULL: translatable(
        "Too many messages are waiting because the receiver fails or is too slow. Fix it, then"
        " enable the webhook to send them."
    ),
    UNDELIVERED: translatable(
        "The receiver has failed for three days. Fix it, then enable the webhook to send the"
        " waiting messages."
    ),
}
_DISABLED_BY_OPERATOR = translatable("The operators of this server disabled the webhook.")
_LIST = ListDeclaration(
    ADDRESS,
    ListWords(
        caption=translatable("Webhooks, oldest first"),
        new=translatable("New webhook"),
        empty_title=translatable("No webhooks yet"),
        empty_text=translatable(
            "A webhook sends the events you choose to your server, signed and at least once."
        ),
    ),
    unsorted(
        translatable("Address"),
        translatable("State"),
        translatable("Events"),
    ),
)
_EMPTY_OF_APP = translatable(
    "A webhook sends events about this app to your server: consent given or withdrawn, tokens"
    " revoked, secrets changed, the app disabled."
)


def secret_page(
    frame: str, app: AppHead | None, back: str, name: str, secret: str, *, rotated: bool
) -> NewSecretPage:
    """Return the page with a new signing secret."""
    return NewSecretPage(
        title=NEW_SECRET,
        back=back,
        above=name,
        copied=(ShownValue("webhook-secret", secret, COPY_THE_SECRET),),
        before=(COPY_NOW, _VERIFIES),
        after=(_PREVIOUS,) if rotated else (),
        done=COPIED,
        frame=frame,
        app=app,
    )


_VERIFIES = translatable(
    "The receiver verifies the signature of each message with it, as Standard Webhooks describes."
)
_PREVIOUS = translatable(
    "For a day, messages are signed with the previous secret too: give the new one to the receiver"
    " before then."
)


def _attempt(attempt: WebhookAttempt, now: Instant, replay_url: str, *, whole: bool) -> Line:
    """Return an attempt as a line; without the response unless `whole`."""
    is_sent_again = replay_url and attempt.name != TEST and attempt.outcome != EVENT_EXPIRED
    count = translatable("attempt %(number)s, %(count)s ms")
    return Line(
        text(attempt.name),
        (badge(attempt.outcome, "" if attempt.outcome.startswith("2") else "alarm"),),
        (
            since(When(attempt.at, now)),
            words(count, number=attempt.attempt, count=attempt.milliseconds),
            code(attempt.event_id),
            *((text(attempt.excerpt),) if whole and attempt.excerpt else ()),
        ),
        act=LineButton(
            with_query(replay_url, {"event": attempt.event_id}),
            translatable("Send again"),
            translatable("Send again: %(name)s"),
            attempt.event_id,
        )
        if is_sent_again
        else None,
    )


SHOWN = 50
"""Maximum number of attempts on a page."""

_DONE = {"edit": translatable("The webhook is changed.")}


class WebhookPages(Struct, Generic[R], frozen=True):
    """The pages about the webhooks of one area."""

    services: Services
    area: Area[R]

    def pages(self) -> tuple[AnyPage, ...]:
        """The list, the form for another one, one webhook, its form and its operations."""
        area, services, one = self.area, self.services, f"{self.area.path}/{{webhook_id}}"
        choices = {"events": tuple((event, event) for event in area.events)} if area.events else {}
        events = {} if choices else {"events": suggestions(lambda: services.kinds)}
        return (
            Page(
                area.path,
                area.sees,
                self.list,
                title=_TITLE,
                nav=area.section or True,
                docs="how-to/operate/webhooks.html",
            ),
            InputForm(
                f"{area.path}/new",
                area.changes,
                area.actor,
                services,
                CREATE_WEBHOOK,
                WebhookSecretShown,
                area.words,
                translatable("New webhook"),
                self._new,
                self._made,
                submit=translatable("Create webhook"),
                choices=choices,
                references=events,
            ).page(),
            Page(one, area.sees, self.show),
            InputForm(
                f"{one}/edit",
                area.changes,
                area.actor,
                services,
                CHANGE_WEBHOOK,
                WebhookShown,
                area.words,
                translatable("Edit webhook"),
                self._edited,
                self._changed,
                choices=choices,
                references=events,
            ).page(),
            ConfirmationPages(
                f"{one}/{{act}}",
                area.acts,
                area.actor,
                BUTTONS,
                services,
                self._subject,
                self._finish,
            ).page(),
        )

    async def list(self, request: R) -> Outcome:
        """Show the webhooks, oldest first."""
        area, actor = self.area, self.area.actor(request)
        client_id = app_of(actor)

        def read_state(tx: Transaction) -> Sequence[Webhook]:
            require_access(tx, actor, changes=False)
            return (
                Webhooks.of(tx).of_operator()
                if client_id is None
                else Webhooks.of(tx).of_client(client_id)
            )

        webhooks = await self.services.store.read(read_state)
        full = len(webhooks) >= area.most
        note = translatable("There are %(count)s webhooks, the maximum.")
        listed = replace(_LIST, address=area.at(request), new_url=f"{area.at(request)}/new")
        if client_id is not None:
            listed = replace(listed, words=replace(listed.words, empty_text=_EMPTY_OF_APP))
        page = listed.whole(
            [self._row(request, webhook) for webhook in webhooks],
            may=area.may(request) and not full,
            done=translatable("Webhook deleted.") if "deleted" in request.query else "",
            notes=(words(note, count=area.most),) if full else (),
        )
        return Show(replace(page, frame=area.frame, app=area.head(request)))

    async def show(self, request: R) -> Outcome:
        """Show a webhook with its delivery log."""
        area, now, may = self.area, request.now, self.area.may(request)

        of_console = app_of(area.actor(request)) is None

        def read_state(
            tx: Transaction,
        ) -> tuple[Webhook, int, Sequence[WebhookAttempt], RecentEvents | None]:
            webhook = area.webhook_in_path(tx, request)
            about = f"webhook:{webhook.id}"
            return (
                webhook,
                WebhookQueue.of(tx).waiting_for(webhook.id),
                Webhooks.of(tx).attempts(webhook.id, SHOWN),
                activity_about(tx, about, now, self.services.kinds) if of_console else None,
            )

        webhook, waiting, attempts, activity = await self.services.store.scan(read_state)
        address, head = area.at(request, webhook.id), area.head(request)
        replay_url = f"{address}/replay" if may and webhook.disabled_at is None else ""
        note = _NOTES.get(webhook.disabled_because, "")
        if head is not None and webhook.disabled_because == OPERATOR:
            note = _DISABLED_BY_OPERATOR
        page = ObjectPage(
            area.at(request),
            _TITLE,
            self._url(request, webhook),
            state=(_state(webhook),),
            notes=(Part("words", note, tone="alarm"),) if note else (),
            description=webhook.description,
            done=BUTTONS.done(request.query.get("done"), _DONE),
            figures=(
                (translatable("Waiting messages"), waiting),
                (translatable("Failures in a row"), webhook.failures),
            ),
            facts=(
                Fact(
                    translatable("Events"),
                    tuple(code(event) for event in webhook.events)
                    or (words(translatable("every event")),),
                ),
                *facts(
                    (
                        (translatable("Webhook"), Part("copy", webhook.id, small="webhook-id")),
                        (translatable("Created"), since(When(webhook.created_at, now))),
                        (translatable("Failing since"), since_or_none(webhook.failing_since, now)),
                        (translatable("Disabled"), since_or_none(webhook.disabled_at, now)),
                    )
                ),
            ),
            links=(("edit", translatable("Edit webhook"), f"{address}/edit"),) if may else (),
            actions=BUTTONS.offers(webhook, area.permissions_of(request), address),
            related=(
                Related(
                    "attempts",
                    translatable("Delivery log"),
                    tuple(_attempt(attempt, now, replay_url, whole=may) for attempt in attempts),
                    translatable("Nothing was sent in the last seven days."),
                ),
            ),
            activity=activity,
            frame=area.frame,
            app=head,
        )
        return Show(page)

    async def _new(self, request: R) -> FormSubject:
        area = self.area
        return FormSubject(area.at(request), _TITLE, frame=area.frame, app=area.head(request))

    async def _made(self, request: R, made: WebhookSecretShown) -> Outcome:
        return self._secret(request, made, request.form.get("url") or "", rotated=False)

    async def _edited(self, request: R) -> FormSubject:
        area, webhook = self.area, await self._find(request)
        return FormSubject(
            area.at(request, webhook.id),
            masked(webhook.url),
            values={name: as_text(value) for name, value in asdict(webhook.target).items()},
            etag=webhook_tag(webhook),
            frame=area.frame,
            app=area.head(request),
        )

    async def _changed(self, request: R, webhook: WebhookShown) -> Outcome:
        return SeeOther(f"{self.area.at(request, webhook.webhook_id)}?done=edit")

    async def _subject(self, request: R, confirmed: Confirmed, form: Form) -> Subject:
        webhook, carries = await self._find(request), confirmed.button.carries
        return Subject(
            self.area.at(request, webhook.id),
            masked(webhook.url),
            () if carries is None else (form.get(carries[0]) or "",),
            confirms=urlsplit(webhook.url).hostname or "",
            frame=self.area.frame,
            app=self.area.head(request),
        )

    async def _finish(self, request: R, confirmed: Confirmed, result: object) -> Outcome:
        if confirmed.operation is REMOVE_WEBHOOK:
            return SeeOther(f"{self.area.at(request)}?deleted=1")
        webhook = await self._find(request)
        if isinstance(result, WebhookSecretShown):
            return self._secret(request, result, webhook.url, rotated=True)
        return SeeOther(f"{self.area.at(request, webhook.id)}?done={confirmed.button.slug}")

    async def _find(self, request: R) -> Webhook:
        return await self.services.store.read(lambda tx: self.area.webhook_in_path(tx, request))

    def _url(self, request: R, webhook: Webhook) -> str:
        return webhook.url if self.area.may(request) else masked(webhook.url)

    def _row(self, request: R, webhook: Webhook) -> Row:
        count = len(webhook.events)
        events = Part("number", count=count) if count else words(translatable("all"))
        return Row(
            webhook.id,
            self._url(request, webhook),
            self.area.at(request, webhook.id),
            ((_state(webhook),), (events,)),
            (text(webhook.description),) if webhook.description else (),
        )

    def _secret(self, request: R, made: WebhookSecretShown, url: str, *, rotated: bool) -> Outcome:
        area = self.area
        back, head = area.at(request, made.webhook_id), area.head(request)
        return Show(secret_page(area.frame, head, back, masked(url), made.secret, rotated=rotated))


def _state(webhook: Webhook) -> Part:
    if webhook.disabled_at is not None:
        return _STATES.get(webhook.disabled_because, _FAULT)
    return _STATES["" if webhook.failing_since is None else "failing"]


def console_pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages about the operator's webhooks."""
    return WebhookPages(services, CONSOLE).pages()


def app_pages(services: Services, frame: str) -> tuple[AnyPage, ...]:
    """Return the pages about the webhooks of an app, in this template of their area."""
    return WebhookPages(services, of_team(frame)).pages()
