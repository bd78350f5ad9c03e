"""/admin/users: search, filter and list the users."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import count_users, find_users, is_gone
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import Uid, User, uid_of
from valetkey.authorization.operations.operation import ListLink
from valetkey.authorization.operations.roles import ROLE_WORDS
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
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
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.site.paging import (
    ONE_PAGE,
    TIME,
    Heading,
    Paging,
    at_most,
    pages_beside,
    sort_headings,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.users import Filter, Order
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.words import translatable
from valetkey.web.body import read_query

USERS = ADDRESSES["admin_users"]
NEW = "/admin/users/new"


class UserLine(Struct, frozen=True):
    """One user in the list."""

    uid: int
    username: str
    name: str
    email: str
    verified: bool
    disabled: bool
    #: "" for none.
    role: str
    since: When
    url: str


class UsersPage(Struct, frozen=True):
    """The list of users; the form uses GET with `q` and `show`."""

    template: ClassVar[str] = "admin/users/users.html"

    action: str
    text: str
    chosen: str
    listed: tuple[UserLine, ...]
    order: str = Order.NEWEST.value
    #: None for a search, which has an order of its own.
    headings: dict[str, Heading] | None = None
    paging: Paging = ONE_PAGE
    saved: SavedPart = NOTHING_SAVED
    #: A user was just deleted.
    deleted: bool = False
    #: Id, title and address of other links above the list.
    links: tuple[tuple[str, str, str], ...] = ()
    #: The form that creates a user; "" where the role may not.
    new_url: str = ""
    #: Title and address of what can be done with the selected users.
    ways: tuple[tuple[str, str], ...] = ()


MOST_COUNTED = 10_000
"""Users that are counted for the total."""

_LONGEST = 200
_NEWS = minutes(5)
_SORTS = {
    "name": (Order.USERNAME.value, Order.USERNAME_DESCENDING.value),
    TIME: (Order.OLDEST.value, Order.NEWEST.value),
}


class UserListPages(Struct, frozen=True):
    """List, search and filter users."""

    store: Store
    links: Sequence[ListLink] = ()

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Users")
        docs = "how-to/operate/run-it-with-a-team.html"
        return (Page(USERS, administrator(), self.show, title=title, nav=PEOPLE, docs=docs),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the users."""
        query, actor = read_query(request.request.query, opaque=("q",)), request.actor
        text = (query.get("q") or "")[:_LONGEST]
        show, after = query.get("show") or "", query.get("after") or ""
        chosen = Filter(show) if show in set(Filter) else Filter.ALL
        sort = query.get("sort") or ""
        order = Order(sort) if sort in set(Order) else Order.NEWEST
        gone, since = uid_of(query.get("deleted") or ""), Instant(request.now - _NEWS)
        said = {
            "q": text,
            "show": "" if chosen is Filter.ALL else chosen.value,
            "sort": "" if order is Order.NEWEST else order.value,
        }
        found, count, saved, deleted = await self.store.scan(
            lambda tx: (
                find_users(tx, actor, text, chosen, after, SHOWN, order),
                count_users(tx, text, chosen, MOST_COUNTED + 1),
                saved_part(tx, request, "users", said),
                # Checked, because anyone can write this URL.
                gone is not None
                and tx.user_directory.has_acted(actor.done_by, "user.removed", gone, since),
            )
        )
        may = request.permissions.allow(Permission.USERS)
        page = UsersPage(
            action=USERS,
            text=text,
            chosen=chosen.value,
            listed=tuple(line_of(user, request.now) for user in found.users),
            order=order.value,
            headings=None if text.strip() else sort_headings(USERS, said, order, _SORTS),
            paging=pages_beside(USERS, said, query, found.more, total=at_most(count, MOST_COUNTED)),
            saved=saved,
            deleted=deleted,
            links=tuple(
                (link.slug, link.title, link.address)
                for link in self.links
                if request.permissions.allow(link.permission)
            ),
            new_url=NEW if may else "",
            ways=SELECTED_USERS.offers(request.permissions),
        )
        return Show(page)


def user_address(uid: Uid) -> str:
    """Return the URL of the page about a user."""
    return f"{USERS}/{uid}"


def line_of(user: User, now: Instant) -> UserLine:
    """Return the user as a line of the list."""
    return UserLine(
        uid=user.uid,
        username=user.username,
        name=user.name,
        email=user.email,
        verified=user.email_verified_at is not None,
        disabled=user.disabled_at is not None,
        role="" if user.role is None else ROLE_WORDS[user.role],
        since=When(user.created_at, now),
        url=user_address(user.uid),
    )


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    uids = [uid for value in values if (uid := uid_of(value)) is not None]
    return [
        SelectedEntry(f"{it.uid}", it.name or it.username, user_address(it.uid), it.username)
        for uid in uids
        if (it := tx.users.find(uid)) is not None and not is_gone(it)
    ]


SELECTED_USERS = Selection(
    "/admin/users/selected",
    USERS,
    translatable("Users"),
    "uid",
    "uid",
    Buttons.below("/users/{uid}", ("disable", "enable", "sign-out")),
    _selected,
)
"""What is offered for several users at once."""
