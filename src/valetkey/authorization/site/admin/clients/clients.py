"""/admin/clients: list, search and filter the apps; /new registers one."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin import search
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.operations.operation import (
    cursor,
    place_in,
)
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.objects import (
    ACTIVE,
    ALL,
    BY_NAME,
    BY_NAME_DESCENDING,
    DISABLED,
    NAMES,
    NEWEST_FIRST,
    OLDEST_FIRST,
    TIMES,
    Choice,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    code,
    since,
    words,
)
from valetkey.authorization.site.admin.selected import SHOWN, SelectedEntry, Selection
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.search import (
    ClientFilter,
    ClientLine,
    ListOrder,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment

CLIENTS = ADDRESSES["admin_clients"]
NEW = "/admin/clients/new"


MOST_COUNTED = 10_000
"""Apps that are counted for the total."""

_LONGEST = 80
_WORDS = {
    "state": {"on": False, "off": True},
    "mark": {"yes": True, "no": False},
    "origin": {"self": True, "us": False},
    "legacy": {"yes": True, "no": False},
}
_DELETED = translatable("App deleted. Its secrets, tokens and grants are revoked.")


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
        query, actor = LIST.read(request), request.actor
        criteria = _filter(query.text, query.chosen)
        position, order = place_in(query.after or None), ListOrder(query.order)
        result, count, saved = await self.store.scan(
            lambda tx: (
                search.search(tx, actor, criteria, position, SHOWN, order),
                tx.client_search.count(criteria, MOST_COUNTED + 1),
                LIST.saved(tx, request, query),
            )
        )
        page = LIST.page(
            request,
            query,
            [_row(line, request.now) for line in result.lines],
            cursor(result.after),
            count,
            saved=saved,
            done=_DELETED if "deleted" in query.query else "",
        )
        return Show(page)


def client_address(client_id: str, act: str = "") -> str:
    """Return the URL of the page about an app, or about one operation on it."""
    address = f"{CLIENTS}/{path_segment(client_id)}"
    return f"{address}/{act}" if act else address


def client_states(
    *, disabled: bool, verified: bool, self_registered: bool, legacy: bool
) -> tuple[Part, ...]:
    """Return the states of an app, each in a word."""
    states = [DISABLED if disabled else ACTIVE]
    if verified:
        states.append(badge(translatable("Verified"), "good"))
    if self_registered:
        states.append(badge(translatable("Self-registered"), "note"))
    if legacy:
        states.append(badge(translatable("Legacy grants"), "note"))
    return tuple(states)


TYPES = {
    "confidential": translatable("On a server, with a secret or key"),
    "public": translatable("On users' devices, without a secret"),
}
PROFILES = {
    "modern": translatable("OAuth 2.1 and its best practice"),
    "classic": translatable("OAuth 2.0, for older software"),
}


def _row(line: ClientLine, now: Instant) -> Row:
    return Row(
        line.id,
        line.name or line.id,
        client_address(line.id),
        (
            client_states(
                disabled=line.disabled_at is not None,
                verified=line.verified_at is not None,
                self_registered=line.self_registered,
                legacy=line.is_legacy,
            ),
            (words(TYPES[line.type.value]),),
            (since(When(line.created_at, now)),),
        ),
        (code(line.id),),
    )


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    clients = (tx.clients.find(client_id) for client_id in values if client_id != RESOURCE_SERVER)
    return [
        SelectedEntry(client.id, client.name or client.id, client_address(client.id), client.id)
        for client in clients
        if client is not None
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


def _filter(text: str, chosen: Mapping[str, str]) -> ClientFilter:
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


def _list() -> ListDeclaration:
    yes, no = translatable("Verified"), translatable("Not verified")
    filters = (
        Choice(
            "state",
            translatable("State"),
            (ALL, ("on", translatable("Active")), ("off", translatable("Disabled"))),
        ),
        Choice("mark", translatable("Verified"), (ALL, ("yes", yes), ("no", no))),
        Choice("type", translatable("Type"), (ALL, *TYPES.items())),
        Choice("profile", translatable("Security profile"), (ALL, *PROFILES.items())),
        Choice(
            "origin",
            translatable("Registered by"),
            (ALL, ("self", translatable("Self-registered")), ("us", translatable("Users"))),
        ),
        Choice(
            "legacy",
            translatable("Legacy grants"),
            (
                ALL,
                ("yes", translatable("With implicit or password grant")),
                ("no", translatable("Without")),
            ),
        ),
    )
    return ListDeclaration(
        CLIENTS,
        ListWords(
            caption=translatable("Apps"),
            new=translatable("Register an app"),
            none_found=translatable("No app found"),
            show_all=translatable("Show all apps"),
            empty_title=translatable("No app is registered yet"),
            empty_text=translatable(
                "Register one here, or let users register apps in the developer portal."
            )
            if ADDRESSES["developer"]
            else "",
            selected=translatable("Selected apps:"),
            search_hint=translatable("Part of the name, or the beginning of the client ID."),
        ),
        (
            (translatable("App"), NAMES),
            (translatable("State"), None),
            (translatable("Kind"), None),
            (translatable("Since"), TIMES),
        ),
        "clients",
        _LONGEST,
        filters,
        (NEWEST_FIRST, OLDEST_FIRST, BY_NAME, BY_NAME_DESCENDING),
        MOST_COUNTED,
        NEW,
        Permission.CLIENTS,
        SELECTED_APPS,
    )


LIST = _list()
"""The list of apps."""
