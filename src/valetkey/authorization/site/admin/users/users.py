"""/admin/users: search, filter and list the users."""

from collections.abc import Sequence

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
from valetkey.authorization.site.admin.objects import (
    ACTIVE,
    DISABLED,
    NEWEST_FIRST,
    OLDEST_FIRST,
    TIMES,
    Choice,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    since,
    text,
)
from valetkey.authorization.site.admin.selected import SHOWN, SelectedEntry, Selection
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.users import Filter, Order
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.text import translatable

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


MOST_COUNTED = 10_000
"""Users that are counted for the total."""

_LONGEST = 200
_NEWS = minutes(5)
_USERNAMES = (Order.USERNAME.value, Order.USERNAME_DESCENDING.value)
_DELETED = translatable("Account deleted. All its sessions and app access are revoked.")


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
        query, actor = LIST.read(request), request.actor
        text, order = query.text, Order(query.order)
        chosen = Filter(query.chosen["show"] or Filter.ALL)
        gone, since = uid_of(query.query.get("deleted") or ""), Instant(request.now - _NEWS)
        result, count, saved, deleted = await self.store.scan(
            lambda tx: (
                find_users(tx, actor, text, chosen, query.after, SHOWN, order),
                count_users(tx, text, chosen, MOST_COUNTED + 1),
                LIST.saved(tx, request, query),
                # Checked, because anyone can write this URL.
                gone is not None
                and tx.user_directory.has_acted(actor.done_by, "user.removed", gone, since),
            )
        )
        page = LIST.page(
            request,
            query,
            [_row(user, request.now) for user in result.users],
            result.more,
            count,
            saved=saved,
            done=_DELETED if deleted else "",
            links=tuple(
                (link.slug, link.title, link.address)
                for link in self.links
                if request.permissions.allow(link.permission)
            ),
            sorts=not text,
        )
        return Show(page)


def _row(user: User, now: Instant) -> Row:
    names = (text(user.username), text(user.email)) if user.name else (text(user.email),)
    return Row(
        f"{user.uid}",
        user.name or user.username,
        user_address(user.uid),
        (user_states(user), (since(When(user.created_at, now)),)),
        names,
    )


def user_address(uid: Uid) -> str:
    """Return the URL of the page about a user."""
    return f"{USERS}/{uid}"


def user_states(user: User) -> tuple[Part, ...]:
    """Return the states of an account, each in a word."""
    states: list[Part] = []
    if user.disabled_at is not None:
        states.append(DISABLED)
    if user.role is not None:
        states.append(badge(ROLE_WORDS[user.role], "good"))
    if user.email_verified_at is None:
        states.append(badge(translatable("Email not verified"), "note"))
    return tuple(states) or (ACTIVE,)


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

LIST = ListDeclaration(
    USERS,
    ListWords(
        caption=translatable("Users"),
        new=translatable("Invite"),
        none_found=translatable("No users found"),
        show_all=translatable("Show all users"),
        empty_title=translatable("No users yet"),
        empty_text=translatable(
            "Invite users by email, or let them sign up themselves if the settings allow it."
        ),
        selected=translatable("Selected users:"),
        search_hint=translatable(
            "Part of a name, username or email address; @ and a domain; or a user ID."
        ),
    ),
    (
        (translatable("User"), _USERNAMES),
        (translatable("State"), None),
        (translatable("Since"), TIMES),
    ),
    "users",
    _LONGEST,
    (
        Choice(
            "show",
            translatable("Show"),
            (
                ("", translatable("All users")),
                (Filter.ROLE.value, translatable("With a role")),
                (Filter.DISABLED.value, translatable("Disabled")),
                (Filter.UNVERIFIED.value, translatable("Email not verified")),
            ),
        ),
    ),
    (
        NEWEST_FIRST,
        OLDEST_FIRST,
        (_USERNAMES[0], translatable("Username")),
        (_USERNAMES[1], translatable("Username, descending")),
    ),
    MOST_COUNTED,
    NEW,
    Permission.USERS,
    SELECTED_USERS,
)
"""The list of users."""
