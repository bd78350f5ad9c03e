"""/admin/clients: list, search and filter the apps; /new registers one."""

from collections.abc import Mapping, Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin import clients
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.operations.client_records import ClientMade, LocalRegistration
from valetkey.authorization.operations.clients import REGISTER
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Services,
    call_of,
    cursor,
    place_in,
    value_of,
)
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.client_rules import portal_options
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.saved_filters import (
    NOTHING_SAVED,
    SavedPart,
    saved_part,
)
from valetkey.authorization.site.admin.selected import SHOWN, SelectedEntry, Selection
from valetkey.authorization.site.app_form.registration import (
    AppRegistration,
    NewApp,
    NewIds,
    Registration,
)
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
from valetkey.authorization.storage.search import ClientFilter, ClientLine, ListOrder, order_in
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.body import Form, read_query

CLIENTS = ADDRESSES["admin_clients"]
NEW = "/admin/clients/new"


class ClientRow(Struct, frozen=True):
    """One app in the list."""

    name: str
    client_id: str
    url: str
    type: str
    profile: str
    since: When
    disabled: bool = False
    verified: bool = False
    self_registered: bool = False
    legacy: bool = False


class ClientsPage(Struct, frozen=True):
    """The list of apps; the form uses GET with `q` and the filters."""

    template: ClassVar[str] = "admin/clients/clients.html"

    action: str
    text: str
    #: The chosen value of each filter, "" for all.
    chosen: dict[str, str]
    listed: tuple[ClientRow, ...]
    headings: dict[str, Heading]
    order: str = ListOrder.NEWEST.value
    #: The page that registers an app; "" if the role may not.
    new_url: str = ""
    narrowed: bool = False
    deleted: bool = False
    paging: Paging = ONE_PAGE
    saved: SavedPart = NOTHING_SAVED
    #: Title and address of what can be done with the selected apps.
    ways: tuple[tuple[str, str], ...] = ()


MOST_COUNTED = 10_000
"""Apps that are counted for the total."""

_LONGEST = 80
_WORDS = {
    "state": {"on": False, "off": True},
    "mark": {"yes": True, "no": False},
    "origin": {"self": True, "us": False},
    "legacy": {"yes": True, "no": False},
}
_SORTS = {
    "name": (ListOrder.NAME.value, ListOrder.NAME_DESCENDING.value),
    TIME: (ListOrder.OLDEST.value, ListOrder.NEWEST.value),
}
_TYPES = ("confidential", "public")
_PROFILES = ("modern", "classic")


class ClientListPages(Struct, frozen=True):
    """List the apps."""

    store: Store

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Apps")
        return (
            Page(
                CLIENTS,
                administrator(),
                self.show,
                title=title,
                nav=APPS_AND_APIS,
                docs="how-to/apps/register-a-client.html",
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the apps. Unknown filter values are ignored."""
        query, actor = read_query(request.request.query, opaque=("q",)), request.actor
        text = (query.get("q") or "").strip()[:_LONGEST]
        chosen = _chosen(query)
        order = order_in(query.get("sort"), ListOrder.NEWEST)
        place = place_in(query.get("after"))
        wanted = _filter(text, chosen)
        said = {"q": text, **chosen}
        if order is not ListOrder.NEWEST:
            said["sort"] = order.value
        found, count, saved = await self.store.scan(
            lambda tx: (
                clients.search(tx, actor, wanted, place, SHOWN, order),
                tx.client_search.count(wanted, MOST_COUNTED + 1),
                saved_part(tx, request, "clients", said),
            )
        )
        total = at_most(count, MOST_COUNTED)
        page = ClientsPage(
            action=CLIENTS,
            text=text,
            chosen=chosen,
            order=order.value,
            headings=sort_headings(CLIENTS, said, order, _SORTS),
            listed=tuple(row_of(line, request.now) for line in found.lines),
            new_url=NEW if request.permissions.allow(Permission.CLIENTS) else "",
            narrowed=bool(text) or any(chosen.values()),
            deleted="deleted" in query,
            paging=pages_beside(CLIENTS, said, query, cursor(found.after), total=total),
            saved=saved,
            ways=SELECTED_APPS.offers(request.permissions),
        )
        return Show(page)


def client_address(client_id: str, act: str = "") -> str:
    """Return the URL of the page about an app, or about one operation on it."""
    place = f"{CLIENTS}/{quote(client_id, safe='')}"
    return f"{place}/{act}" if act else place


def row_of(line: ClientLine, now: Instant) -> ClientRow:
    """Return the app as a row of the list."""
    return ClientRow(
        name=line.name or line.id,
        client_id=line.id,
        url=client_address(line.id),
        type=line.type.value,
        profile=line.profile.value,
        since=When(line.created_at, now),
        disabled=line.disabled_at is not None,
        verified=line.verified_at is not None,
        self_registered=line.self_registered,
        legacy=line.is_legacy,
    )


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    found = (tx.clients.find(each) for each in values if each != RESOURCE_SERVER)
    return [
        SelectedEntry(each.id, each.name or each.id, client_address(each.id), each.id)
        for each in found
        if each is not None
    ]


SELECTED_APPS = Selection(
    "/admin/clients/selected",
    CLIENTS,
    translatable("Apps"),
    "client",
    "client_id",
    Buttons.below("/clients/{client_id}", ("disable", "enable", "delete")),
    _selected,
)
"""What is offered for several apps at once."""


def _chosen(query: Form) -> dict[str, str]:
    known = {name: tuple(words) for name, words in _WORDS.items()}
    known |= {"type": _TYPES, "profile": _PROFILES}
    said = {name: query.get(name) or "" for name in known}
    return {name: value if value in known[name] else "" for name, value in said.items()}


def _filter(text: str, chosen: dict[str, str]) -> ClientFilter:
    flags = {name: words.get(chosen[name]) for name, words in _WORDS.items()}
    return ClientFilter(
        text=text,
        type=chosen["type"] or None,
        profile=chosen["profile"] or None,
        disabled=flags["state"],
        verified=flags["mark"],
        self_registered=flags["origin"],
        legacy=flags["legacy"],
    )


class NewClient(Struct, frozen=True):
    """Register an app of any grant type and with any scope of this server.

    `scopes` describes the scopes that users can be asked for.
    """

    services: Services
    ids: NewIds
    scopes: Mapping[str, str]
    issuer: str

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        registration = AppRegistration(
            NEW,
            "admin/frame.html",
            CLIENTS,
            self._portal,
            self.ids,
            self.scopes,
            self.issuer,
            lambda request: request.actor.session_id,
            self._denial,
            self._register,
            fault_status=400,
        )
        return (registration.page(administrator(Permission.CLIENTS)),)

    def _portal(self) -> Portal:
        """Return the rules of the form: every scope, and every grant type of this server."""
        registrar = self.services.registrar("admin")
        grants = tuple(sorted(portal_options(registrar.rules.grant_types)))
        settings = replace(self.services.settings.portal, grant_types=grants, scopes=())
        return Portal(registrar, settings, tuple(self.scopes), ())

    async def _denial(self, _request: AdminRequest) -> None:
        """Deny nothing: the requirement of the page has checked the role."""

    async def _register(
        self, request: AdminRequest, app: ClientMetadata, client_id: str
    ) -> Registration:
        body, url = LocalRegistration(app, client_id), client_address(client_id)
        # A repeated submit or a reload: the secret has been shown.
        if await self.services.store.read(lambda tx: tx.clients.find(client_id)) is not None:
            return SeeOther(url)
        call = call_of(self.services, REGISTER, request.actor, request.now, body=body)
        try:
            made = await value_of(call, ClientMade)
        except InvalidInput as invalid:
            taken = any(fault.field == "client_id" for fault in invalid.faults)
            return SeeOther(url) if taken else invalid.faults
        return NewApp(app.name, url, str(getattr(made, "client_secret", None) or ""))
