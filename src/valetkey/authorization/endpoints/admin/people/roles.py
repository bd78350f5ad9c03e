"""/admin/roles: who has which role, and giving one."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.deeds.admin.permissions import Permission, powers_of, require
from valetkey.authorization.deeds.admin.resolve import users_meant
from valetkey.authorization.deeds.admin.roles import Holder, Roles
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.admin.people.addresses import ROLES, user_address
from valetkey.authorization.endpoints.admin.people.users import line_of
from valetkey.authorization.endpoints.admin.visit import actor_of, administered, administered_form
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import User
from valetkey.authorization.pages.admin.people.roles import HolderLine, RolesPage
from valetkey.authorization.pages.admin.people.user import Act
from valetkey.authorization.pages.admin.people.users import ROLE_WORDS
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response

_LONGEST = 200
_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class RolesEndpoint:
    """Roles."""

    site: Site
    roles: Roles

    async def get(self, request: Request) -> Response:
        """Who has which."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        return await self._page(request, seen)

    async def post(self, request: Request) -> Response:
        """Find who is meant, and ask on their page."""
        found = await administered_form(self.site, request, Permission.ROLES, opaque=("person",))
        if isinstance(found, Response):
            return found
        seen, form = found
        asked = await stepped_up(self.site, request, seen)
        if asked is not None:
            return asked
        name, role = (form.get("person") or "").strip()[:_LONGEST], form.get("role") or ""
        if role not in set(Role):
            raise Refused(
                Refusal(ErrorCode.INVALID_REQUEST, "choose one of the roles", "admin.role")
            )
        actor = actor_of(seen)

        def work(tx: Transaction) -> Sequence[User]:
            require(tx, actor, Permission.ROLES)
            return users_meant(tx, name)

        meant = await self.site.store.read(work)
        if len(meant) != 1:
            return await self._page(request, seen, name, role, meant)
        # Nothing is given yet: the next page shows whom the role is for, and asks.
        return self.site.goes_to(f"{user_address(meant[0].uid)}/{Act.ROLE}?role={role}")

    async def _page(
        self,
        request: Request,
        seen: Visit,
        unknown: str | None = None,
        chosen: str = "",
        several: Sequence[User] = (),
    ) -> Response:
        actor, me = actor_of(seen), seen.signed_in.user
        gives = powers_of(me.role).allow(Permission.ROLES)

        def work(tx: Transaction) -> tuple[Holder, ...]:
            require(tx, actor, Permission.READ)
            return tuple(self.roles.holders(tx))

        holders = await self.site.store.scan(work)
        page = RolesPage(
            action=ROLES,
            csrf=seen.csrf,
            holders=tuple(_line(each, me, request.at, gives=gives) for each in holders),
            gives=gives,
            roles=tuple((role.value, ROLE_WORDS[role]) for role in Role),
            person=unknown or "",
            chosen=chosen or Role.AUDITOR.value,
            unknown=unknown is not None and not several,
            several=tuple(line_of(user, request.at) for user in several),
        )
        status = 200 if unknown is None else _BAD_REQUEST
        return self.site.page(request, page, status, user=me, headers=seen.headers)


def _line(holder: Holder, me: User, now: Instant, *, gives: bool) -> HolderLine:
    user = holder.user
    url = f"{user_address(user.uid)}/{Act.ROLE}" if gives else ""
    return HolderLine(line_of(user, now), holder.protected, url, me=user.uid == me.uid)
