"""/admin/roles: list the roles of users, and assign one."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.roles import Roles, UserWithRole
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.user import Role, User
from valetkey.authorization.operations.roles import ROLE_WORDS
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.users.users import (
    UserLine,
    line_of,
    user_address,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable

ROLES = ADDRESSES["admin_roles"]


class HolderLine(Struct, frozen=True):
    """A user with a role, in the list."""

    person: UserLine
    #: More than a password signs them in.
    protected: bool
    #: The URL that changes it; "" if the viewer's role may not.
    change_url: str
    #: Whether this user is the viewer.
    me: bool = False


class RolesPage(Struct, frozen=True):
    """The list of role holders, highest first; the form posts `person` and `role`."""

    template: ClassVar[str] = "admin/users/roles.html"

    action: str
    holders: tuple[HolderLine, ...]
    #: Whether the viewer may give roles.
    gives: bool
    #: The roles there are, by value and name.
    roles: tuple[tuple[str, str], ...]
    #: The name that was typed, and whether no user has it.
    person: str = ""
    chosen: str = ""
    unknown: bool = False
    #: The users that the name could mean, if there are several.
    several: tuple[UserLine, ...] = ()


_LONGEST = 200
_BAD_REQUEST = 400


class RoleHolderPages(Struct, frozen=True):
    """List the users with a role; assign a role to another."""

    store: Store
    roles: Roles

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, with a form that leads to the confirmation page of the chosen user."""
        choose = Act(
            self.choose,
            opaque=("person",),
            requires=administrator(Permission.ROLES, recent=True),
        )
        title = translatable("Roles")
        docs = "reference/roles.html"
        return (
            Page(ROLES, administrator(), self.show, choose, title=title, nav=PEOPLE, docs=docs),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the users with a role."""
        return await self._page(request)

    async def choose(self, request: AdminRequest) -> Outcome:
        """Find the user, and redirect to the confirmation on their page."""
        form = request.form
        name, role = (form.get("person") or "").strip()[:_LONGEST], form.get("role") or ""
        if role not in set(Role):
            raise Refused.because(
                ErrorCode.INVALID_REQUEST, "choose one of the roles", "admin.role"
            )
        actor = request.actor

        def find_users(tx: Transaction) -> Sequence[User]:
            require(tx, actor, Permission.ROLES)
            return resolve_users(tx, name)

        meant = await self.store.read(find_users)
        if len(meant) != 1:
            return await self._page(request, name, role, meant)
        # No role is assigned yet: the next page shows the user, and asks for confirmation.
        return SeeOther(f"{user_address(meant[0].uid)}/role?role={role}")

    async def _page(
        self,
        request: AdminRequest,
        unknown: str | None = None,
        chosen: str = "",
        several: Sequence[User] = (),
    ) -> Outcome:
        actor, me = request.actor, request.user
        gives = request.permissions.allow(Permission.ROLES)

        def find_holders(tx: Transaction) -> tuple[UserWithRole, ...]:
            require(tx, actor, Permission.READ)
            return tuple(self.roles.holders(tx))

        holders = await self.store.scan(find_holders)
        page = RolesPage(
            action=ROLES,
            holders=tuple(_line(each, me, request.now, gives=gives) for each in holders),
            gives=gives,
            roles=tuple((role.value, ROLE_WORDS[role]) for role in Role),
            person=unknown or "",
            chosen=chosen or Role.AUDITOR.value,
            unknown=unknown is not None and not several,
            several=tuple(line_of(user, request.now) for user in several),
        )
        status = 200 if unknown is None else _BAD_REQUEST
        return Show(page, status)


def _line(holder: UserWithRole, me: User, now: Instant, *, gives: bool) -> HolderLine:
    user = holder.user
    url = f"{user_address(user.uid)}/role" if gives else ""
    return HolderLine(line_of(user, now), holder.protected, url, me=user.uid == me.uid)
