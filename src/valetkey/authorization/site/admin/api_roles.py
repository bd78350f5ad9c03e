"""Roles of users and groups at APIs: shown, assigned and removed."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.user import uid_of
from valetkey.authorization.operations.operation import (
    ObjectLink,
    Operation,
    Services,
    call_of,
    linked,
)
from valetkey.authorization.operations.roles import (
    ASSIGN_GROUP_ROLE,
    ASSIGN_ROLE,
    WITHDRAW_GROUP_ROLE,
    WITHDRAW_ROLE,
)
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.confirm import done_word
from valetkey.authorization.site.admin.groups.groups import group_address
from valetkey.authorization.site.admin.object_page import (
    Adder,
    Related,
)
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    code,
    text,
    words,
)
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act as PageAct
from valetkey.authorization.site.page import Outcome, Page, SeeOther
from valetkey.authorization.storage.apis import ApiWithRoles, AssignedRole
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name

API = "/apis/{api_id}"
"""The path of an API, as links to its page have it."""

MOST_SHOWN = 500
"""Maximum number of roles and of APIs on a page."""


def declared_roles(tx: Transaction) -> Sequence[ApiWithRoles]:
    """Return the APIs whose roles a page offers."""
    return tx.api_roles.declared(MOST_SHOWN)


def roles_part(
    assigned: Sequence[AssignedRole],
    declared: Sequence[ApiWithRoles],
    own: str,
    action: str,
    links: Sequence[ObjectLink],
) -> Related | None:
    """Return the list on a page, None if no API declares roles and none is assigned.

    Roles given by `own` are those of the user or group itself. Without an `action` nothing can be
    changed.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for assigned_role in assigned:
        groups.setdefault((assigned_role.api, assigned_role.role, assigned_role.api_id), []).append(
            assigned_role.by
        )
    lines = tuple(
        Line(
            text(api, linked(links, API, api_id)),
            (code(role),),
            tuple(
                words(translatable("by the group %(name)s"), name=name)
                for name in by
                if name != own
            ),
            LineButton(
                action,
                translatable("Remove"),
                translatable("Remove the role %(name)s"),
                f"{role}: {api}",
                (("role", f"{api_id} {role}"), ("do", _REMOVES)),
            )
            if own in by and action
            else None,
        )
        for (api, role, api_id), by in groups.items()
    )
    had = {
        (assigned_role.api_id, assigned_role.role)
        for assigned_role in assigned
        if assigned_role.by == own
    }
    choices = tuple(
        (f"{api.id} {role}", f"{api.name}: {role}")
        for api in declared
        for role in api.roles
        if (api.id, role) not in had
    )
    if not lines and not (choices and action):
        return None
    adder = Adder(
        action,
        "assign",
        "role",
        translatable("Assign a role"),
        translatable("New tokens for the API contain it in the claim roles."),
        choices,
        (("do", "assign"),),
        submit=translatable("Assign"),
    )
    return Related(
        "api-roles",
        translatable("API roles"),
        lines,
        translatable("No roles."),
        adder=adder if choices and action else None,
    )


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
        """Return the form handlers for users and for groups."""
        may = administrator(Permission.USERS)
        return (
            Page(OF_USER, may, act=PageAct(self.of_user)),
            Page(OF_GROUP, may, act=PageAct(self.of_group)),
        )

    async def of_user(self, request: AdminRequest) -> Outcome:
        """Assign the role to a user, or remove it."""
        uid = uid_of(request.arguments["uid"])
        if uid is None:
            raise page_not_found()
        done = await self._run(request, ASSIGN_ROLE, WITHDRAW_ROLE, {"uid": str(uid)})
        return SeeOther(f"{user_address(uid)}?done={done}")

    async def of_group(self, request: AdminRequest) -> Outcome:
        """Assign the role to a group, or remove it."""
        name = request.arguments["group"]
        done = await self._run(request, ASSIGN_GROUP_ROLE, WITHDRAW_GROUP_ROLE, {"group": name})
        return SeeOther(f"{group_address(segment_name(name))}?done={done}")

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
        path = {"api_id": path_segment(api_id), "role": path_segment(role), **holder}
        operation = withdraw if removes else assign
        call = call_of(self.services, operation, request.actor, request.now, path)
        result = await operation.run(call)
        return done_word("api-role-removed" if removes else "api-role", result.value)
