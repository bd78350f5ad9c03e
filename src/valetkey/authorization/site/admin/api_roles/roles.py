"""What the pages of users and groups show of their roles at APIs."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.site.admin.apis.apis import api_address
from valetkey.authorization.storage.administration.api_roles import ApiWithRoles, AssignedRole
from valetkey.authorization.storage.transaction import Transaction

MOST_SHOWN = 500
"""Roles and APIs on a page."""


class RoleLine(Struct, frozen=True):
    """A role at an API. `value` removes it, "" where it comes from `groups` alone."""

    role: str
    api: str
    url: str
    value: str
    groups: tuple[str, ...]


class RolesPart(Struct, frozen=True):
    """The roles, and a form for another. `action` is "" where the viewer may change nothing."""

    lines: tuple[RoleLine, ...]
    #: Value and label of each role that can be assigned.
    choices: tuple[tuple[str, str], ...]
    action: str


NO_ROLES = RolesPart((), (), "")


def declared_roles(tx: Transaction) -> Sequence[ApiWithRoles]:
    """Return the APIs whose roles a page offers."""
    return tx.api_roles.declared(MOST_SHOWN)


def roles_part(
    assigned: Sequence[AssignedRole], declared: Sequence[ApiWithRoles], own: str, action: str
) -> RolesPart:
    """Return what a page shows; roles given by `own` are those of the user or group itself."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in assigned:
        groups.setdefault((each.api, each.role, each.api_id), []).append(each.by)
    lines = tuple(
        RoleLine(
            role,
            api,
            api_address(api_id),
            f"{api_id} {role}" if own in by and action else "",
            tuple(name for name in by if name != own),
        )
        for (api, role, api_id), by in groups.items()
    )
    had = {(each.api_id, each.role) for each in assigned if each.by == own}
    choices = tuple(
        (f"{api.id} {role}", f"{api.name}: {role}")
        for api in declared
        for role in api.roles
        if (api.id, role) not in had
    )
    return RolesPart(lines, choices if action else (), action)
