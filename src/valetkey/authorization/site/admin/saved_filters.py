"""/admin/filters: save the filter of a list under a name, and delete it."""

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther
from valetkey.authorization.storage.search import MOST, SavedFilter, SavedFilters
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.body import read_query

FILTERS = "/admin/filters"

LISTS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "events": (
            ADDRESSES["admin_events"],
            ("person", "client", "name", "by", "outcome", "subject", "since", "until"),
        ),
        "users": (ADDRESSES["admin_users"], ("q", "show", "sort")),
        "clients": (
            ADDRESSES["admin_clients"],
            ("q", "state", "mark", "type", "profile", "origin", "legacy", "sort"),
        ),
        "groups": (ADDRESSES["admin_groups"], ("q", "sort")),
        "apis": (ADDRESSES["admin_apis"], ("q", "sort")),
    }
)
"""The page of each list, and the parameters that are its filter."""

_LONGEST_NAME = 80
_LONGEST = 2_000


class SavedLine(Struct, frozen=True):
    """A saved filter and the page that it leads to."""

    name: str
    url: str


class SavedPart(Struct, frozen=True):
    """The saved filters of a list; the forms post `list`, `name`, `query` and `do`."""

    list_name: str
    #: The filter of the shown page, "" for none.
    query: str
    lines: tuple[SavedLine, ...]
    action: str = FILTERS

    @property
    def may_save(self) -> bool:
        """Return whether there is a filter to save, and room for it."""
        return bool(self.query) and len(self.lines) < MOST

    @property
    def is_full(self) -> bool:
        """Return whether one has to be deleted first."""
        return bool(self.query) and len(self.lines) >= MOST


NOTHING_SAVED = SavedPart("events", "", ())
"""The part of a list without filters."""


def saved_part(
    tx: Transaction, request: AdminRequest, list_name: str, parameters: Mapping[str, str]
) -> SavedPart:
    """Return what the user saved for a list whose page has these parameters."""
    address, _ = LISTS[list_name]
    saved = SavedFilters(tx.db).of_list(request.user.uid, list_name)
    return SavedPart(
        list_name,
        urlencode({name: value for name, value in parameters.items() if value}),
        tuple(
            SavedLine(saved_filter.name, f"{address}?{saved_filter.query}")
            for saved_filter in saved
        ),
    )


class SavedFilterForms(Struct, frozen=True):
    """Save and delete filters."""

    store: Store

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The address of both forms."""
        return (Page(FILTERS, administrator(), act=Act(self.act, opaque=("query",))),)

    async def act(self, request: AdminRequest) -> Outcome:
        """Save the filter of a list under a name, or delete one."""
        form, actor, uid, now = request.form, request.actor, request.user.uid, request.now
        list_name, name = form.get("list") or "", (form.get("name") or "").strip()
        if list_name not in LISTS or form.get("do") not in {"save", "delete"}:
            raise page_not_found()
        address, parameters = LISTS[list_name]
        form_query = read_query((form.get("query") or "")[:_LONGEST], opaque=("q",))
        values = {parameter: form_query.get(parameter) or "" for parameter in parameters}
        query = urlencode({parameter: value for parameter, value in values.items() if value})
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise Refused.because(
                ErrorCode.INVALID_REQUEST,
                "enter a name of at most 80 visible characters",
                "admin.filter_name",
            )

        def save(tx: Transaction) -> None:
            tx.users.hold_alone(uid)
            require(tx, actor, Permission.READ)
            saved = SavedFilter(name, query)
            if not query or not SavedFilters(tx.db).save(uid, list_name, saved, now):
                raise Refused.because(
                    ErrorCode.INVALID_REQUEST,
                    "no more filters can be saved for this list; delete one first",
                    "admin.filter_limit",
                )

        def delete(tx: Transaction) -> None:
            require(tx, actor, Permission.READ)
            SavedFilters(tx.db).remove(uid, list_name, name)

        work = save if form.get("do") == "save" else delete
        await self.store.write(work, done_by=actor.done_by)
        return SeeOther(with_query(address, values))
