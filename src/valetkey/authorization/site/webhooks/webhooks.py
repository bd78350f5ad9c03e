"""Pages about webhooks: the list, one webhook with its delivery log, its form, its operations."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.actions.webhooks import app_of, require_access
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.webhook import Webhook, WebhookAttempt
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.operations.server_records import (
    WebhookChange,
    WebhookSecretShown,
    WebhookWanted,
    masked,
    webhook_tag,
)
from valetkey.authorization.operations.webhooks import (
    CHANGE_WEBHOOK,
    CREATE_WEBHOOK,
    REMOVE_WEBHOOK,
)
from valetkey.authorization.site.admin.confirm import Confirmation, Confirmed, Subject
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
from valetkey.authorization.site.webhooks.area import BUTTONS, Area
from valetkey.authorization.site.webhooks.contexts import (
    WebhookPage,
    WebhookRow,
    WebhookSecretPage,
    WebhooksPage,
    attempt_line,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.preconditions import FAILED, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.form import Form

SHOWN = 50
"""Maximum number of attempts on a page."""

_BAD_REQUEST = 400
_DONE = {"edit": translatable("The webhook is changed.")}

R = TypeVar("R", bound=VisitorRequest)


class WebhookPages(Struct, Generic[R], frozen=True):
    """The pages about the webhooks of one area."""

    services: Services
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
            Confirmation(
                f"{one}/{{act}}",
                area.acts,
                area.actor,
                BUTTONS,
                self.services,
                self._subject,
                self._finish,
            ).page(),
        )

    async def list(self, request: R) -> Outcome:
        """Show the webhooks, oldest first."""
        area, actor = self.area, self.area.actor(request)
        client_id = app_of(actor)

        def look(tx: Transaction) -> Sequence[Webhook]:
            require_access(tx, actor, changes=False)
            return (
                tx.webhooks.of_operator() if client_id is None else tx.webhooks.of_client(client_id)
            )

        found = await self.services.store.read(look)
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
        """Create it and show its secret, this once."""
        area, values = self.area, typed(request.form, self.area.words)
        try:
            body = read_input(WebhookWanted, area.words, request.form)
            actor, create = area.actor(request), CREATE_WEBHOOK
            call = call_of(self.services, create, actor, request.now, body=body)
            made = await value_of(call, WebhookSecretShown)
        except InvalidInput as invalid:
            return self._form(request, None, values, invalid.faults)
        return self._secret(request, made, masked(body.url), rotated=False)

    async def show(self, request: R) -> Outcome:
        """Show a webhook with its delivery log."""
        area, now, may = self.area, request.now, self.area.may(request)

        def look(tx: Transaction) -> tuple[Webhook, int, Sequence[WebhookAttempt]]:
            webhook = area.found(tx, request)
            return webhook, tx.webhooks.waiting(webhook.id), tx.webhooks.attempts(webhook.id, SHOWN)

        webhook, waiting, attempts = await self.services.store.scan(look)
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
            ways=BUTTONS.offers(webhook, area.powers(request), place),
            edit_url=f"{place}/edit" if may else "",
            attempts=tuple(
                attempt_line(each, now, f"{place}/replay" if may and enabled else "", whole=may)
                for each in attempts
            ),
            done=BUTTONS.done(request.query.get("done"), _DONE),
        )
        return Show(page)

    async def edit(self, request: R) -> Outcome:
        """Show the form with the webhook's current values."""
        webhook = await self._find(request)
        values = {name: as_text(_value(webhook, name)) for name in self.area.words}
        return self._form(request, webhook, values)

    async def change(self, request: R) -> Outcome:
        """Change it, unless it was changed since the form was shown."""
        area, form = self.area, request.form
        webhook, values = await self._find(request), typed(form, area.words)
        try:
            wanted = read_input(WebhookWanted, area.words, form)
            body = WebhookChange(wanted.url, wanted.events, wanted.description)
            path = {"webhook_id": webhook.id}
            call = call_of(
                self.services, CHANGE_WEBHOOK, area.actor(request), request.now, path, body
            )
            seen = preconditions((form.get("etag") or '""',), ())
            await call.operation.run(replace(call, preconditions=seen))
        except InvalidInput as invalid:
            return self._form(request, webhook, values, invalid.faults)
        except Refused as refused:
            if refused.refusal is not FAILED:
                raise
            return self._form(request, await self._find(request), values, stale=True)
        return SeeOther(f"{area.at(request, webhook.id)}?done=edit")

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
            return self._secret(request, result, masked(webhook.url), rotated=True)
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

    def _secret(self, request: R, made: WebhookSecretShown, name: str, *, rotated: bool) -> Outcome:
        area = self.area
        back = area.at(request, made.webhook_id)
        return Show(
            WebhookSecretPage(area.frame, area.head(request), back, name, made.secret, rotated)
        )

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
