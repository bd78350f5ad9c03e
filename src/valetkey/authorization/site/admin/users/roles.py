"""/admin/roles: list the roles of users, and assign one."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.roles import Roles, UserWithRole
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.user import Role, User
from valetkey.authorization.operations.roles import ROLE_ALLOWS, ROLE_WORDS
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.object_page import Adder, ObjectPage, Related
from valetkey.authorization.site.admin.objects import (
    DISABLED,
    Line,
    LineButton,
    Part,
    badge,
    text,
    words,
)
from valetkey.authorization.site.admin.references import Named, users_offered
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.text import translatable

ROLES = ADDRESSES["admin_roles"]
_TITLE = translatable("Roles")
_HINT = translatable(
    "Username, email address or user ID of a user. Prefix it with name:, email: or uid: if it is "
    "ambiguous."
)
_UNKNOWN = translatable("No such user. Enter an exact username, email address or user ID.")
_LONGEST = 200
_BAD_REQUEST = 400


class RoleHolderPages(Struct, frozen=True):
    """List the users with a role; assign a role to another."""

    store: Store
    roles: Roles

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, with a form that leads to the confirmation page of the chosen user."""
        requires = administrator(Permission.ROLES, recent=True)
        choose, docs = Act(self.choose, ("person",), requires=requires), "reference/roles.html"
        return (
            Page(ROLES, administrator(), self.show, choose, title=_TITLE, nav=PEOPLE, docs=docs),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the users with a role."""
        return Show(await self._page(request))

    async def choose(self, request: AdminRequest) -> Outcome:
        """Find the user, and redirect to the confirmation on their page."""
        name, actor = (request.form.get("person") or "").strip()[:_LONGEST], request.actor

        def find_users(tx: Transaction) -> Sequence[User]:
            require(tx, actor, Permission.ROLES)
            return resolve_users(tx, name)

        meant = await self.store.read(find_users)
        if len(meant) == 1:
            # No role is assigned yet: the next page shows the user, and asks for the role.
            return SeeOther(_role_address(meant[0]))
        return Show(await self._page(request, name, meant, is_unknown=not meant), _BAD_REQUEST)

    async def _page(
        self,
        request: AdminRequest,
        name: str = "",
        meant: Sequence[User] = (),
        *,
        is_unknown: bool = False,
    ) -> ObjectPage:
        actor, gives = request.actor, request.permissions.allow(Permission.ROLES)

        def find_holders(tx: Transaction) -> tuple[tuple[UserWithRole, ...], tuple[Named, ...]]:
            require(tx, actor, Permission.READ)
            return tuple(self.roles.holders(tx)), users_offered(tx) if gives else ()

        holders, users = await self.store.scan(find_holders)
        adder = role_adder(name, meant, users, is_unknown=is_unknown) if gives else None
        return roles_page(holders, request.user.uid, adder)


def role_adder(
    name: str, meant: Sequence[User], offered: tuple[Named, ...], *, is_unknown: bool
) -> Adder:
    """Return the form for the user to whom a role is assigned, with those that the name means."""
    return Adder(
        ROLES,
        "give",
        "person",
        translatable("User"),
        _HINT,
        value=name,
        fault=_UNKNOWN if is_unknown else "",
        candidates=tuple(
            Line(
                text(user.username, _role_address(user)),
                below=(
                    text(user.email),
                    words(translatable("User ID %(uid)s"), uid=str(user.uid)),
                ),
            )
            for user in meant
        ),
        submit=translatable("Assign role"),
        offered=offered,
    )


def roles_page(holders: Sequence[UserWithRole], me: int, adder: Adder | None) -> ObjectPage:
    """Return the page with the role holders, highest first, for the viewer with the uid `me`.

    `adder` is None if the viewer's role may not assign roles.
    """
    return ObjectPage(
        "",
        "",
        _TITLE,
        related=(
            Related(
                "holders",
                translatable("Users with a role"),
                tuple(_line(holder, me, gives=adder is not None) for holder in holders),
                translatable("No roles assigned yet"),
                adder=adder,
            ),
            Related(
                "permissions",
                translatable("Permissions"),
                tuple(
                    Line(words(ROLE_WORDS[role]), below=(words(ROLE_ALLOWS[role]),))
                    for role in Role
                ),
            ),
        ),
    )


def _line(holder: UserWithRole, me: int, *, gives: bool) -> Line:
    user = holder.user
    name, states = user.name or user.username, list[Part]()
    if user.role is not None:
        states.append(badge(ROLE_WORDS[user.role], "good"))
    if user.uid == me:
        states.append(badge(translatable("You")))
    if user.disabled_at is not None:
        states.append(DISABLED)
    if not holder.protected:
        states.append(badge(translatable("No second factor"), "note"))
    title, label = translatable("Change"), translatable("Change the role of %(name)s")
    change = LineButton(_role_address(user), title, label, name) if gives else None
    return Line(text(name, user_address(user.uid)), tuple(states), (text(user.email),), change)


def _role_address(user: User) -> str:
    return f"{user_address(user.uid)}/role"
