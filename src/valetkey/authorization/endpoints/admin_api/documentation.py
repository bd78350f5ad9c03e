"""The page for people about the admin API: every operation, what it needs, and its manners."""

from valetkey.authorization.deeds.admin.permissions import MAY, Permission
from valetkey.authorization.endpoints.admin_api.operation import PREFIX, Operation
from valetkey.authorization.endpoints.admin_api.table import AREAS
from valetkey.authorization.pages.admin.things.programs.api import (
    ApiPage,
    AreaShown,
    OperationShown,
    PermissionShown,
)
from valetkey.authorization.pages.admin.things.programs.tokens import PERMISSION_WORDS


def explained(issuer: str) -> ApiPage:
    """The page, from the table alone: it says nothing of anybody's data."""
    return ApiPage(
        base=f"{issuer}{PREFIX}",
        openapi=f"{PREFIX}/openapi.json",
        example=f'curl -H "Authorization: Bearer $TOKEN" {issuer}{PREFIX}/token',
        permissions=tuple(
            PermissionShown(
                each.value,
                PERMISSION_WORDS[each],
                tuple(role.value for role, may in MAY.items() if each in may),
            )
            for each in Permission
        ),
        areas=tuple(
            AreaShown(name, tuple(_shown(each) for each in operations))
            for name, operations in AREAS.items()
        ),
    )


def _shown(operation: Operation) -> OperationShown:
    return OperationShown(
        operation.method,
        operation.path,
        operation.summary,
        operation.description,
        operation.permission.value,
        tuple(each.name for each in operation.query),
        guarded=operation.guarded,
    )
