"""Pages about webhooks: the list, one webhook with its delivery log, its form, its operations."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.actions.webhooks import (
    ENTROPY,
    WebhookChanges,
    disable_webhook,
    enable_webhook,
    queue_again,
    queue_test,
    remove_webhook,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.webhook import Webhook, WebhookAttempt
from valetkey.authorization.operations.operation import InvalidInput
from valetkey.authorization.operations.server_records import (
    WebhookWanted,
    masked,
    target_of,
    webhook_tag,
)
from valetkey.authorization.site.admin.administrator import page_not_found
from valetkey.authorization.site.admin.confirm import MISMATCH, ConfirmPage, Offer, is_unconfirmed
from valetkey.authorization.site.admin.input_form import (
    Faults,
    InputFormPage,
    as_text,
    input_fields,
    read_input,
    typed,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    VisitorRequest,
)
from valetkey.authorization.site.webhooks.area import Area
from valetkey.authorization.site.webhooks.contexts import (
    BUTTONS,
    WebhookPage,
    WebhookRow,
    WebhookSecretPage,
    WebhooksPage,
    attempt_line,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.words import translatable

SHOWN = 50
"""Maximum number of attempts on a page."""

_BAD_REQUEST = 400
_LONGEST_ID = 100
_EDITED = translatable("The webhook is changed.")

R = TypeVar("R", bound=VisitorRequest)


class WebhookPages(Struct, Generic[R], frozen=True):
    """The pages about the webhooks of one area."""

    store: Store
    actions: WebhookChanges
    area: Area[R]

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the list, the forms, one webhook, and the confirmation of operations."""
        area, one = self.area, f"{self.area.path}/{{webhook_id}}"
        new, edit = translatable("New webhook"), translatable("Edit webhook")
        create = Act(self.create, opaque=("events",))
        change = Act(self.change, opaque=("events",))
        return (
            Page(
                area.path,
                area.sees,
                self.list,
                title=translatable("Webhooks"),
                nav=area.section or True,
            ),
            Page(f"{area.path}/new", area.changes, self.ask_new, create, title=new),
            Page(one, area.sees, self.show),
            Page(f"{one}/edit", area.changes, self.edit, change, title=edit),
            Page(f"{one}/{{act}}", area.changes, self.ask, Act(self.run)),
        )

    async def list(self, request: R) -> Outcome:
        """Show the webhooks, oldest first."""
        area, client_id = self.area, self.area.client_id(request)

        def look(tx: Transaction) -> Sequence[Webhook]:
            area.judge(tx, request, False)
            return (
                tx.webhooks.of_operator() if client_id is None else tx.webhooks.of_client(client_id)
            )

        found = await self.store.read(look)
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

    async def ask_new(self, request: R) -> Outcome:
        """Show the form for a new webhook."""
        return self._form(request, None, {})

    async def create(self, request: R) -> Outcome:
        """Create the webhook and show its secret, once."""
        area, now = self.area, request.now
        values = typed(request.form, area.words)
        entropy = self.actions.random(ENTROPY)
        try:
            target = target_of(read_input(WebhookWanted, area.words, request.form))

            def create_webhook(tx: Transaction) -> tuple[str, str]:
                tx.webhooks.hold_all()
                area.judge(tx, request, True)
                made = self.actions.create(tx, target, entropy, now, area.client_id(request))
                if isinstance(made, tuple):
                    raise InvalidInput(made)
                return made.webhook.id, made.secret

            webhook_id, secret = await self.store.write(
                create_webhook, done_by=area.done_by(request)
            )
        except InvalidInput as invalid:
            return self._form(request, None, values, invalid.faults)
        return self._secret(request, webhook_id, masked(target.url), secret, rotated=False)

    async def show(self, request: R) -> Outcome:
        """Show a webhook with its delivery log."""
        area, now, may = self.area, request.now, self.area.may(request)

        def look(tx: Transaction) -> tuple[Webhook, int, Sequence[WebhookAttempt]]:
            area.judge(tx, request, False)
            webhook = area.found(tx, request)
            return webhook, tx.webhooks.waiting(webhook.id), tx.webhooks.attempts(webhook.id, SHOWN)

        webhook, waiting, attempts = await self.store.scan(look)
        said = request.query.get("done") or ""
        done = _EDITED if said == "edit" else BUTTONS[said].done if said in BUTTONS else ""
        enabled = webhook.disabled_at is None
        hidden = {"replay", "enable"} if enabled else {"replay", "test", "disable"}
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
            ways=tuple(
                Offer(slug, button.title, f"{place}/{slug}")
                for slug, button in BUTTONS.items()
                if may and slug not in hidden
            ),
            edit_url=f"{place}/edit" if may else "",
            attempts=tuple(
                attempt_line(each, now, f"{place}/replay" if may and enabled else "", whole=may)
                for each in attempts
            ),
            done=done,
        )
        return Show(page)

    async def edit(self, request: R) -> Outcome:
        """Show the form with the webhook's current values."""
        webhook = await self._find(request)
        values = {name: as_text(_value(webhook, name)) for name in self.area.words}
        return self._form(request, webhook, values)

    async def change(self, request: R) -> Outcome:
        """Change the webhook, unless it was changed since the form was shown."""
        area, now, form = self.area, request.now, request.form
        webhook, values = await self._find(request), typed(request.form, self.area.words)
        try:
            target = target_of(read_input(WebhookWanted, area.words, form))

            def change_webhook(tx: Transaction) -> bool:
                tx.webhooks.hold_all()
                area.judge(tx, request, True)
                current = area.found(tx, request)
                if form.get("etag") != webhook_tag(current):
                    return False
                changed = self.actions.change(tx, current, target, now)
                if isinstance(changed, tuple):
                    raise InvalidInput(changed)
                return True

            changed = await self.store.write(change_webhook, done_by=area.done_by(request))
        except InvalidInput as invalid:
            return self._form(request, webhook, values, invalid.faults)
        if not changed:
            return self._form(request, await self._find(request), values, stale=True)
        return SeeOther(f"{area.at(request, webhook.id)}?done=edit")

    async def ask(self, request: R) -> Outcome:
        """Ask before an operation."""
        return self._ask(request, await self._find(request), request.query.get("event") or "")

    async def run(self, request: R) -> Outcome:
        """Run an operation. A state that is already reached counts as success."""
        area, now, slug = self.area, request.now, request.arguments["act"]
        if slug not in BUTTONS:
            raise page_not_found()
        entropy, event_id = self.actions.random(ENTROPY), request.form.get("event") or ""
        if BUTTONS[slug].irreversible and is_unconfirmed(request.form):
            return self._ask(request, await self._find(request), event_id, MISMATCH)

        def perform(tx: Transaction) -> tuple[Webhook, str]:
            tx.webhooks.hold_all()
            area.judge(tx, request, True)
            webhook = area.found(tx, request)
            return webhook, self._perform(tx, webhook, slug, event_id, entropy, now)

        try:
            webhook, secret = await self.store.write(perform, done_by=area.done_by(request))
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            found = await self._find(request)
            return self._ask(request, found, event_id, refused.refusal.description)
        if secret:
            return self._secret(request, webhook.id, masked(webhook.url), secret, rotated=True)
        if slug == "delete":
            return SeeOther(f"{area.at(request)}?deleted=1")
        return SeeOther(f"{area.at(request, webhook.id)}?done={slug}")

    def _perform(
        self,
        tx: Transaction,
        webhook: Webhook,
        slug: str,
        event_id: str,
        entropy: bytes,
        now: Instant,
    ) -> str:
        """Run an operation; return the new secret, "" for none."""
        match slug:
            case "secret":
                return self.actions.rotate(tx, webhook, entropy, now)
            case "enable":
                enable_webhook(tx, webhook, now)
            case "disable":
                disable_webhook(tx, webhook, now, self.area.because)
            case "delete":
                remove_webhook(tx, webhook, now)
            case "test":
                queue_test(tx, webhook, fresh_id("ev", lambda size: entropy[:size]), now)
            case _:
                queue_again(tx, webhook, event_id[:_LONGEST_ID], now)
        return ""

    async def _find(self, request: R) -> Webhook:
        def look(tx: Transaction) -> Webhook:
            self.area.judge(tx, request, False)
            return self.area.found(tx, request)

        return await self.store.read(look)

    def _ask(self, request: R, webhook: Webhook, event_id: str, fault: str = "") -> Outcome:
        button = BUTTONS.get(request.arguments["act"])
        if button is None:
            raise page_not_found()
        is_replay = request.arguments["act"] == "replay"
        back = self.area.at(request, webhook.id)
        page = ConfirmPage(
            action=f"{back}/{request.arguments['act']}",
            back=back,
            csrf=request.csrf,
            title=button.title,
            text=button.text,
            name=masked(webhook.url),
            facts=(event_id,) if is_replay else (),
            danger=button.danger,
            hidden=(("event", event_id),) if is_replay else (),
            fault=fault,
            confirms=(urlsplit(webhook.url).hostname or "") if button.irreversible else "",
            frame=self.area.frame,
            app=self.area.head(request),
        )
        return Show(page, _BAD_REQUEST if fault else 200)

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

    def _secret(
        self, request: R, webhook_id: str, name: str, secret: str, *, rotated: bool
    ) -> Outcome:
        area = self.area
        back = area.at(request, webhook_id)
        return Show(WebhookSecretPage(area.frame, area.head(request), back, name, secret, rotated))

    def _form(
        self,
        request: R,
        webhook: Webhook | None,
        values: Mapping[str, str],
        faults: Faults = (),
        *,
        stale: bool = False,
    ) -> Outcome:
        area, is_new = self.area, webhook is None
        place = area.at(request, "" if webhook is None else webhook.id)
        tag = "" if webhook is None else webhook_tag(webhook)
        page = InputFormPage(
            action=f"{place}/{'new' if is_new else 'edit'}",
            back=place,
            above=translatable("Webhooks") if webhook is None else masked(webhook.url),
            csrf=request.csrf,
            title=translatable("New webhook") if is_new else translatable("Edit webhook"),
            submit=translatable("Create webhook") if is_new else translatable("Save changes"),
            fields=input_fields(WebhookWanted, area.words, values, faults),
            etag=tag if stale or not faults else request.form.get("etag") or "",
            stale=stale,
            frame=area.frame,
            app=area.head(request),
        )
        return Show(page, _BAD_REQUEST if faults or stale else 200)


def _value(webhook: Webhook, name: str) -> object:
    return list(webhook.events) if name == "events" else getattr(webhook, name)
