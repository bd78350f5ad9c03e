"""/admin/users: search, filter and list the users."""

import re
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import find_users, uid_of
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.operations.roles import ROLE_WORDS
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.administration.people import Filter
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.words import translatable
from valetkey.web.form import read_query

USERS = "/admin/users"
IMPORT = "/admin/users/import"


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
    #: The next and the first page of the list; "" for none.
    more: str = ""
    first: str = ""
    #: A user was just deleted.
    deleted: bool = False
    #: "" where the role may not.
    import_url: str = ""


SHOWN = 50
"""Maximum number of users on a page."""

_LONGEST = 200
_NEWS = minutes(5)
_UID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


class Users(Struct, frozen=True):
    """List, search and filter users."""

    store: Store

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Users")
        return (Page(USERS, administrator(), self.show, title=title, nav=PEOPLE),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the users."""
        query, actor = read_query(request.request.query, opaque=("q",)), request.actor
        text = (query.get("q") or "")[:_LONGEST]
        said, after = query.get("show") or "", query.get("after") or ""
        chosen = Filter(said) if said in set(Filter) else Filter.ALL
        gone, since = uid_of(query.get("deleted") or ""), Instant(request.now - _NEWS)
        found, deleted = await self.store.scan(
            lambda tx: (
                find_users(tx, actor, text, chosen, after, SHOWN),
                # Checked, because anyone can write this URL.
                gone is not None and tx.people.did(actor.done_by, "user.removed", gone, since),
            )
        )
        page = UsersPage(
            action=USERS,
            text=text,
            chosen=chosen.value,
            listed=tuple(line_of(user, request.now) for user in found.users),
            more=_address(text, chosen, found.more) if found.more else "",
            first=_address(text, chosen, "") if after else "",
            deleted=deleted,
            import_url=IMPORT if request.powers.allow(Permission.PEOPLE) else "",
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


def _address(text: str, chosen: Filter, after: str) -> str:
    said = {"q": text, "show": "" if chosen is Filter.ALL else chosen.value, "after": after}
    query = urlencode({name: value for name, value in said.items() if value})
    return f"{USERS}?{query}" if query else USERS
