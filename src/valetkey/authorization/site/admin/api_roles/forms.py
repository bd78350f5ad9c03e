"""/admin/users/{uid}/api-roles and the same of groups: assign a role at an API, and remove it."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import uid_of
from valetkey.authorization.operations.api_roles import (
    ASSIGN_GROUP_ROLE,
    ASSIGN_ROLE,
    WITHDRAW_GROUP_ROLE,
    WITHDRAW_ROLE,
)
from valetkey.authorization.operations.operation import Operation, Services, call_of
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.groups.groups import group_address
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther

OF_USER = "/admin/users/{uid}/api-roles"
OF_GROUP = "/admin/groups/{group}/api-roles"

_LONGEST = 200
_REMOVES = "remove"


class ApiRoleForms(Struct, frozen=True):
    """The forms on the pages of users and groups. They post `role`: the id of the API, and a role.

    The operations check the permission about this user, and which roles the API declares.
    """

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Where the forms are sent."""
        may = administrator(Permission.PEOPLE)
        return (
            Page(OF_USER, may, act=Act(self.of_user)),
            Page(OF_GROUP, may, act=Act(self.of_group)),
        )

    async def of_user(self, request: AdminRequest) -> Outcome:
        """Assign the role to a user, or remove it."""
        uid = uid_of(request.arguments["uid"])
        if uid is None:
            raise page_not_found()
        done = await self._run(request, ASSIGN_ROLE, WITHDRAW_ROLE, {"uid": str(uid)})
        return SeeOther(f"{user_address(uid)}?done={done}")

    async def of_group(self, request: AdminRequest) -> Outcome:
        """Assign the role to the members of a group, or remove it."""
        name = request.arguments["group"]
        done = await self._run(request, ASSIGN_GROUP_ROLE, WITHDRAW_GROUP_ROLE, {"group": name})
        return SeeOther(f"{group_address(name)}?done={done}")

    async def _run(
        self,
        request: AdminRequest,
        assign: Operation,
        withdraw: Operation,
        holder: Mapping[str, str],
    ) -> str:
        removes = request.form.get("do") == _REMOVES
        api_id, _, role = (request.form.get("role") or "")[:_LONGEST].partition(" ")
        if not api_id or not role:
            raise page_not_found()
        path = {"api_id": quote(api_id, safe=""), "role": quote(role, safe=""), **holder}
        operation = withdraw if removes else assign
        call = call_of(self.services, operation, request.actor, request.now, path)
        await operation.run(call)
        return "api-role-removed" if removes else "api-role"
