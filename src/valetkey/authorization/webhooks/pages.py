"""Pages about webhooks in the console and for teams of apps: list, log, forms, operations."""

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Generic, TypeVar
from urllib.parse import quote, urlsplit

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
    Offer,
    Subject,
)
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
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
    MOST_WEBHOOKS,
    MOST_WEBHOOKS_OF_APP,
    TEST,
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
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked
from valetkey.web.body import Form

_ID = 100

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
    "events": (
        translatable("Events"),
        translatable(
            "Leave empty for all of these: consent.given, consent.withdrawn, "
            "grant.revoked, access_token.revoked, client_secret.issued, client_secret.ended, "
            "client.disabled, client.enabled."
        ),
    ),
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
        place = self.path if head is None else head.path(self.path)
        return f"{place}/{quote(webhook_id, safe='')}" if webhook_id else place

    def found(self, tx: Transaction, request: R) -> Webhook:
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


class WebhookRow(Struct, frozen=True):
    """A webhook in the list. `state` is on, failing, disabled or fault."""

    url: str
    address: str
    description: str
    events: tuple[str, ...]
    state: str


class WebhooksPage(Struct, frozen=True):
    """The list; `new_url` is "" if the role may not add one, or at the maximum number."""

    template: ClassVar[str] = "webhooks/webhooks.html"

    frame: str
    app: AppHead | None
    listed: tuple[WebhookRow, ...]
    most: int
    full: bool
    new_url: str
    deleted: bool


class AttemptLine(Struct, frozen=True):
    """An attempt; `replay_url` is "" if the user may not send it again."""

    at: When
    name: str
    event_id: str
    attempt: int
    outcome: str
    accepted: bool
    milliseconds: int
    excerpt: str
    replay_url: str


class WebhookPage(Struct, frozen=True):
    """One webhook; `because` is why it is disabled."""

    template: ClassVar[str] = "webhooks/webhook.html"
    title: ClassVar[str] = translatable("Webhook")

    frame: str
    app: AppHead | None
    back: str
    row: WebhookRow
    webhook_id: str
    because: str
    created: When
    disabled: When | None
    failing: When | None
    failures: int
    waiting: int
    ways: tuple[Offer, ...]
    edit_url: str
    attempts: tuple[AttemptLine, ...]
    done: str = ""


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


def attempt_line(
    attempt: WebhookAttempt, now: Instant, replay_url: str, *, whole: bool
) -> AttemptLine:
    """Return an attempt as a line; without the response unless `whole`."""
    again = with_query(replay_url, {"event": attempt.event_id}) if replay_url else ""
    return AttemptLine(
        When(attempt.at, now),
        attempt.name,
        attempt.event_id,
        attempt.attempt,
        attempt.outcome,
        attempt.outcome.startswith("2"),
        attempt.milliseconds,
        attempt.excerpt if whole else "",
        "" if attempt.name == TEST or attempt.outcome == EVENT_EXPIRED else again,
    )


SHOWN = 50
"""Maximum number of attempts on a page."""

_BAD_REQUEST = 400
_DONE = {"edit": translatable("The webhook is changed.")}


class WebhookPages(Struct, Generic[R], frozen=True):
    """The pages about the webhooks of one area."""

    services: Services
    area: Area[R]

    def pages(self) -> tuple[AnyPage, ...]:
        """The list, the form for another one, one webhook, its form and its operations."""
        area, services, one = self.area, self.services, f"{self.area.path}/{{webhook_id}}"
        events = {"events": suggestions(lambda: area.events or services.kinds)}
        return (
            Page(
                area.path,
                area.sees,
                self.list,
                title=translatable("Webhooks"),
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

        found = await self.services.store.read(read_state)
        full = len(found) >= area.most
        page = WebhooksPage(
            area.frame,
            area.head(request),
            tuple(self._row(request, each) for each in found),
            area.most,
            full,
            area.at(request, "new") if area.may(request) and not full else "",
            "deleted" in request.query,
        )
        return Show(page)

    async def show(self, request: R) -> Outcome:
        """Show a webhook with its delivery log."""
        area, now, may = self.area, request.now, self.area.may(request)

        def read_state(tx: Transaction) -> tuple[Webhook, int, Sequence[WebhookAttempt]]:
            webhook = area.found(tx, request)
            return (
                webhook,
                WebhookQueue.of(tx).waiting_for(webhook.id),
                Webhooks.of(tx).attempts(webhook.id, SHOWN),
            )

        webhook, waiting, attempts = await self.services.store.scan(read_state)
        enabled = webhook.disabled_at is None
        place = area.at(request, webhook.id)
        page = WebhookPage(
            frame=area.frame,
            app=area.head(request),
            back=area.at(request),
            row=self._row(request, webhook),
            webhook_id=webhook.id,
            because=webhook.disabled_because,
            created=When(webhook.created_at, now),
            disabled=None if webhook.disabled_at is None else When(webhook.disabled_at, now),
            failing=None if webhook.failing_since is None else When(webhook.failing_since, now),
            failures=webhook.failures,
            waiting=waiting,
            ways=BUTTONS.offers(webhook, area.permissions_of(request), place),
            edit_url=f"{place}/edit" if may else "",
            attempts=tuple(
                attempt_line(each, now, f"{place}/replay" if may and enabled else "", whole=may)
                for each in attempts
            ),
            done=BUTTONS.done(request.query.get("done"), _DONE),
        )
        return Show(page)

    async def _new(self, request: R) -> FormSubject:
        area = self.area
        above = translatable("Webhooks")
        return FormSubject(area.at(request), above, frame=area.frame, app=area.head(request))

    async def _made(self, request: R, made: WebhookSecretShown) -> Outcome:
        return self._secret(request, made, request.form.get("url") or "", rotated=False)

    async def _edited(self, request: R) -> FormSubject:
        area, webhook = self.area, await self._find(request)
        return FormSubject(
            area.at(request, webhook.id),
            masked(webhook.url),
            {name: as_text(value) for name, value in asdict(webhook.target).items()},
            webhook_tag(webhook),
            area.frame,
            area.head(request),
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
        return await self.services.store.read(lambda tx: self.area.found(tx, request))

    def _row(self, request: R, webhook: Webhook) -> WebhookRow:
        state = "on" if webhook.failing_since is None else "failing"
        if webhook.disabled_at is not None:
            state = "fault" if webhook.is_fault else "disabled"
        return WebhookRow(
            webhook.url if self.area.may(request) else masked(webhook.url),
            self.area.at(request, webhook.id),
            webhook.description,
            webhook.events,
            state,
        )

    def _secret(self, request: R, made: WebhookSecretShown, url: str, *, rotated: bool) -> Outcome:
        area = self.area
        back, head = area.at(request, made.webhook_id), area.head(request)
        return Show(secret_page(area.frame, head, back, masked(url), made.secret, rotated=rotated))


def console_pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages about the operator's webhooks."""
    return WebhookPages(services, CONSOLE).pages()


def app_pages(services: Services, frame: str) -> tuple[AnyPage, ...]:
    """Return the pages about the webhooks of an app, in this template of their area."""
    return WebhookPages(services, of_team(frame)).pages()
