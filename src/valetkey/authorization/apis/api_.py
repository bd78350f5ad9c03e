"""/admin/apis/{api_id}: one API, its form, and the operations on it."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.register.api import API_FIELDS, Api
from valetkey.authorization.model.register.client import ClientSecret
from valetkey.authorization.operations.api_records import ApiShown, shown
from valetkey.authorization.operations.apis import (
    CHANGE_API,
    DELETE_API,
    no_such_api,
)
from valetkey.authorization.operations.client_records import NewSecret
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.apis.apis import (
    API_CHOICES,
    API_GROUPS,
    API_WORDS,
    APIS,
    LINES,
    api_address,
)
from valetkey.authorization.site.admin.clients.client import (
    ClientSecretLine,
    secret_lines,
    secret_page,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Offer,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.input_fields import as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.register.apis import ApiUsage
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.words import translatable
from valetkey.web.form import Form

API = "/admin/apis/{api_id}"
EDIT = "/admin/apis/{api_id}/edit"
ACT = "/admin/apis/{api_id}/{act}"

_BUTTONS = Buttons.below("/apis/{api_id}")
_DONE = {
    "new": translatable("The API is created. Issue a secret if it introspects tokens."),
    "edit": translatable("The API is changed."),
}
_CHANGE_WORDS = {name: words for name, words in API_WORDS.items() if name != "identifier"}
_SHOWN_APART = frozenset(
    (
        *("identifier", "name", "scopes", "machine_scopes", "shares_scopes", "roles"),
        *("clients", "required_groups", "access_token_lifetime"),
    )
)
"""The fields that the template presents; others are shown as their label and value."""

_IN_A_DAY = "86400"
_LONGEST_ID = 100
_BAD_REQUEST = 400


class ApiPage(Struct, frozen=True):
    """The declaration of an API, without its secrets."""

    template: ClassVar[str] = "admin/apis/api.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    api: Api
    #: Label and value of the fields that have no presentation of their own.
    facts: tuple[tuple[str, str], ...]
    #: True if every client may ask for it.
    open: bool
    since: When
    changed: When
    disabled_since: When | None
    apps: int
    authorizations: int
    secrets: tuple[ClientSecretLine, ...]
    ways: tuple[Offer, ...]
    #: "" where the role may not.
    edit_url: str
    protect_url: str
    #: The operation that was just run; "" for none.
    done: str = ""


class _ApiState(Struct, frozen=True):
    api: Api
    secrets: Sequence[ClientSecret]
    reach: ApiUsage


class ApiPages(Struct, frozen=True):
    """Show one API, its form, and the operations on it."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """One API, its form, and the confirmation before an operation."""
        return (
            Page(API, administrator(), self.show),
            InputForm(
                EDIT,
                administrator(Permission.CLIENTS),
                actor_of,
                self.services,
                CHANGE_API,
                ApiShown,
                _CHANGE_WORDS,
                translatable("Edit API"),
                self._edited,
                self._changed,
                opaque=LINES,
                choices=API_CHOICES,
                groups=API_GROUPS,
            ).page(),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the API without its secrets."""
        done = _BUTTONS.done(request.query.get("done"), _DONE)
        return Show(_page(await self._look(request), request, done))

    async def _edited(self, request: AdminRequest) -> FormSubject:
        api = (await self._look(request)).api
        record = shown(api)
        values = {name: as_text(getattr(record, name)) for name in _CHANGE_WORDS}
        return FormSubject(api_address(api.id), api.name, values, tag_of(record))

    async def _changed(self, _request: AdminRequest, api: Struct) -> Outcome:
        return SeeOther(f"{api_address(asdict(api)['api_id'])}?done=edit")

    async def _finish(self, request: AdminRequest, confirmed: Confirmed, result: object) -> Outcome:
        if isinstance(result, NewSecret):
            return await self._issued(request, result)
        if confirmed.operation is DELETE_API:
            return SeeOther(f"{APIS}?deleted=1")
        return SeeOther(f"{api_address(named(request))}?done={confirmed.button.slug}")

    async def _issued(self, request: AdminRequest, made: NewSecret) -> Outcome:
        seen = await self._look(request)
        page = secret_page(
            api_address(seen.api.id),
            seen.api.name,
            seen.api.id,
            made.client_secret,
            others_end=bool(request.form.get("others_live")) and len(seen.secrets) > 1,
        )
        return Show(page)

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        seen, carries = await self._look(request), confirmed.button.carries
        facts = [seen.api.identifier]
        if carries is not None:
            wanted = form.get(carries[0]) or ""
            if all(each.id != wanted for each in seen.secrets):
                raise page_not_found()
            facts.append(wanted)
        return Subject(
            api_address(seen.api.id),
            seen.api.name,
            tuple(facts),
            Impact(apps=seen.reach.apps, authorizations=seen.reach.authorizations),
            {"others_live": _IN_A_DAY},
        )

    async def _look(self, request: AdminRequest) -> _ApiState:
        api_id, actor, now = named(request), request.actor, request.now

        def read_state(tx: Transaction) -> _ApiState:
            require(tx, actor, Permission.READ)
            api = tx.apis.find(api_id)
            if api is None:
                raise no_such_api()
            credential = tx.clients.find(api.id)
            secrets = () if credential is None else credential.live_secrets(now)
            return _ApiState(api, secrets, tx.apis.usage_of(api.id, now))

        return await self.services.store.scan(read_state)


def named(request: AdminRequest) -> str:
    """Return the API id in the path. Raises Refused if no API can have it."""
    name = request.arguments["api_id"]
    if len(name) > _LONGEST_ID or not name.isascii() or not name.isprintable():
        raise no_such_api()
    return name


def _page(seen: _ApiState, request: AdminRequest, done: str) -> ApiPage:
    api, now = seen.api, request.now
    may = request.permissions.allow(Permission.CLIENTS)
    end_url = api_address(api.id, "end-secret") if may else ""
    return ApiPage(
        api=api,
        facts=tuple(
            (field.rule.label, text)
            for name, field in API_FIELDS.items()
            if name not in _SHOWN_APART and (text := as_text(getattr(api, name)))
        ),
        open=api.clients is None,
        since=When(api.created_at, now),
        changed=When(api.changed_at, now),
        disabled_since=None if api.disabled_at is None else When(api.disabled_at, now),
        apps=seen.reach.apps,
        authorizations=seen.reach.authorizations,
        secrets=secret_lines(seen.secrets, end_url, now),
        ways=_BUTTONS.offers(api, request.permissions, api_address(api.id)),
        edit_url=api_address(api.id, "edit") if may else "",
        protect_url=api_address(api.id, "protect"),
        done=done,
    )
