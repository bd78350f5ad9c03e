"""The documentation page of the admin API: conventions, permissions and every operation."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import MAY, Permission
from valetkey.authorization.operations.operation import PREFIX, Operation
from valetkey.authorization.operations.table import Table
from valetkey.authorization.site.admin.server.tokens import PERMISSION_WORDS
from valetkey.kernel.words import translatable


class OperationShown(Struct, frozen=True):
    """One operation as the page shows it."""

    method: str
    path: str
    summary: str
    description: str
    permission: str
    query: tuple[str, ...]
    requires_if_match: bool


class AreaShown(Struct, frozen=True):
    """The operations of one area."""

    name: str
    operations: tuple[OperationShown, ...]


class PermissionShown(Struct, frozen=True):
    """A permission that a token can have, and the roles that have it."""

    name: str
    words: str
    roles: tuple[str, ...]


class ApiReferencePage(Struct, frozen=True):
    """The context of the page: conventions, permissions and operations."""

    template: ClassVar[str] = "admin/server/api.html"
    title: ClassVar[str] = translatable("Admin API")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    base: str
    openapi: str
    example: str
    permissions: tuple[PermissionShown, ...]
    areas: tuple[AreaShown, ...]


def explained(issuer: str, table: Table) -> ApiReferencePage:
    """Return the page, built from the operations table only."""
    return ApiReferencePage(
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
            for name, operations in table.areas.items()
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
        requires_if_match=operation.requires_if_match,
    )
