"""/admin/clients: apps, searched and filtered, page by page."""

from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin import clients
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import cursor, place_in
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    administrator,
    with_query,
)
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.administration.client_search import ClientFilter, ClientLine
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable
from valetkey.web.form import Form, read_query

CLIENTS = "/admin/clients"
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
    #: What is chosen in each filter, "" for all.
    chosen: dict[str, str]
    listed: tuple[ClientRow, ...]
    #: Where an app is registered; "" where the role may not.
    new_url: str = ""
    narrowed: bool = False
    deleted: bool = False
    #: Where the list goes on, and where it begins; "" where it does not.
    more: str = ""
    first: str = ""


SHOWN = 50
"""Apps on a page."""

_LONGEST = 80
_WORDS = {
    "state": {"on": False, "off": True},
    "mark": {"yes": True, "no": False},
    "origin": {"self": True, "us": False},
    "legacy": {"yes": True, "no": False},
}
_TYPES = ("confidential", "public")
_PROFILES = ("modern", "classic")


class Clients(Struct, frozen=True):
    """The list."""

    store: Store

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The list."""
        title = translatable("Apps")
        return (Page(CLIENTS, administrator(), self.show, title=title, nav=APPS_AND_APIS),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the list. Unknown filter values are ignored."""
        query, actor = read_query(request.request.query, opaque=("q",)), request.actor
        text = (query.get("q") or "").strip()[:_LONGEST]
        chosen = _chosen(query)
        before = place_in(query.get("after"))
        found = await self.store.scan(
            lambda tx: clients.search(tx, actor, _filter(text, chosen), before, SHOWN)
        )
        said = {"q": text, **chosen}
        after = cursor(found.after)
        page = ClientsPage(
            action=CLIENTS,
            text=text,
            chosen=chosen,
            listed=tuple(row_of(line, request.now) for line in found.lines),
            new_url=NEW if request.powers.allow(Permission.CLIENTS) else "",
            narrowed=bool(text) or any(chosen.values()),
            deleted="deleted" in query,
            more=with_query(CLIENTS, {**said, "after": after}) if after else "",
            first=with_query(CLIENTS, said) if "after" in query else "",
        )
        return Show(page)


def client_address(client_id: str, act: str = "") -> str:
    """The page about this app, or about one operation on it."""
    place = f"{CLIENTS}/{quote(client_id, safe='')}"
    return f"{place}/{act}" if act else place


def row_of(line: ClientLine, now: Instant) -> ClientRow:
    """The app in one row."""
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
