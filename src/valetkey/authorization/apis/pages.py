"""/admin/apis: list APIs by identifier, and declare one."""

from collections.abc import Mapping, Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.register.api import API_FIELDS
from valetkey.authorization.operations.api_records import (
    ANY,
    ApiList,
    ApiShown,
    ApiWanted,
)
from valetkey.authorization.operations.apis import DECLARE_API, LIST_APIS, ONE
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    actor_of,
    administrator,
)
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.input_fields import Choices, Words, in_lines
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.saved_filters import (
    NOTHING_SAVED,
    SavedPart,
    saved_part,
)
from valetkey.authorization.site.admin.selected import SelectedEntry, Selection
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.paging import (
    ONE_PAGE,
    TIME,
    Heading,
    Paging,
    at_most,
    pages_beside,
    sort_headings,
)
from valetkey.authorization.storage.administration.list_order import ListOrder, order_in
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

APIS = ADDRESSES["admin_apis"]
NEW = "/admin/apis/new"
_FORM = {"name": API_FIELDS["name"], **API_FIELDS}
API_WORDS: Words = {name: (each.rule.label, each.rule.hint) for name, each in _FORM.items()}
"""Labels and hints of the fields of an API."""

API_GROUPS = {name: each.rule.group for name, each in API_FIELDS.items()}
"""The headings of its fields."""

API_CHOICES: Mapping[str, Choices] = {
    name: each.rule.choices for name, each in API_FIELDS.items() if each.rule.choices
}
"""Labels of its choices."""

LINES = in_lines(ApiWanted, API_WORDS)
"""The fields with a value per line."""

_TITLE = translatable("APIs")
_LONGEST = 80
_SORTS = {
    "name": (ListOrder.NAME.value, ListOrder.NAME_DESCENDING.value),
    TIME: (ListOrder.OLDEST.value, ListOrder.NEWEST.value),
}

MOST_COUNTED = 10_000
"""APIs that are counted for the total."""


class ApiRow(Struct, frozen=True):
    """One API in the list."""

    name: str
    identifier: str
    api_id: str
    url: str
    scopes: int
    disabled: bool
    since: When


class ApisPage(Struct, frozen=True):
    """A page of the list of APIs; the form uses GET with `q`."""

    template: ClassVar[str] = "admin/apis/apis.html"

    action: str
    text: str
    listed: tuple[ApiRow, ...]
    headings: dict[str, Heading]
    #: The identifier of the server's own API.
    own: str
    #: "" where the role may not.
    new_url: str
    paging: Paging = ONE_PAGE
    saved: SavedPart = NOTHING_SAVED
    deleted: bool = False
    #: Title and address of what can be done with the selected APIs.
    ways: tuple[tuple[str, str], ...] = ()


class Apis(Struct, frozen=True):
    """List the APIs; declare one."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list and the form."""
        return (
            Page(
                APIS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=APPS_AND_APIS,
                docs="how-to/apis/several-apis.html",
            ),
            InputForm(
                NEW,
                administrator(Permission.CLIENTS),
                actor_of,
                self.services,
                DECLARE_API,
                ApiShown,
                API_WORDS,
                translatable("New API"),
                self._new,
                self._made,
                submit=translatable("Create API"),
                opaque=LINES,
                choices=API_CHOICES,
                groups=API_GROUPS,
            ).page(),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the APIs with the text in their name or identifier."""
        query = request.query
        text = (query.get("q") or "").strip()[:_LONGEST]
        order = order_in(query.get("sort"), ListOrder.NAME)
        said = {"q": text, "sort": "" if order is ListOrder.NAME else order.value}
        asked = {"q": text, "sort": order.value, "cursor": (query.get("after") or "")[:_LONGEST]}
        call = call_of(self.services, LIST_APIS, request.actor, request.now, query=asked)
        found = asdict(await value_of(call, ApiList))
        count, saved = await self.services.store.scan(
            lambda tx: (
                tx.api_search.count(text, MOST_COUNTED + 1),
                saved_part(tx, request, "apis", said),
            )
        )
        page = ApisPage(
            action=APIS,
            text=text,
            listed=tuple(row_of(each, request.now) for each in found["items"]),
            headings=sort_headings(APIS, said, order, _SORTS),
            own=self.services.settings.audience,
            new_url=NEW if request.permissions.allow(Permission.CLIENTS) else "",
            paging=pages_beside(
                APIS, said, query, found["next"] or "", total=at_most(count, MOST_COUNTED)
            ),
            saved=saved,
            deleted="deleted" in query,
            ways=SELECTED_APIS.offers(request.permissions),
        )
        return Show(page)

    async def _new(self, _request: AdminRequest) -> FormSubject:
        return FormSubject(APIS, _TITLE, {"clients": ANY})

    async def _made(self, _request: AdminRequest, made: Struct) -> Outcome:
        return SeeOther(f"{api_address(asdict(made)['api_id'])}?done=new")


def api_address(api_id: str, act: str = "") -> str:
    """Return the URL of the page about an API, or about one operation on it."""
    place = f"{APIS}/{quote(api_id, safe='')}"
    return f"{place}/{act}" if act else place


def row_of(api: Struct, now: Instant) -> ApiRow:
    """Return an `ApiShown` as a row of the list."""
    record = asdict(api)
    return ApiRow(
        name=record["name"],
        identifier=record["identifier"],
        api_id=record["api_id"],
        url=api_address(record["api_id"]),
        scopes=len({*record["scopes"], *record["machine_scopes"]}),
        disabled=record["disabled_at"] is not None,
        since=When(Instant(record["created_at"]), now),
    )


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    found = (tx.apis.find(value) for value in values)
    return [
        SelectedEntry(each.id, each.name, api_address(each.id), each.identifier)
        for each in found
        if each is not None
    ]


SELECTED_APIS = Selection(
    f"{APIS}/selected",
    APIS,
    _TITLE,
    "api",
    "api_id",
    Buttons.below(ONE, ("disable", "enable", "delete")),
    _selected,
)
"""What is offered for several APIs at once."""
