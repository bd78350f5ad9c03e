"""The admin API explained: manners, permissions, operations. For developers, so in English."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class OperationShown:
    """One operation."""

    method: str
    path: str
    summary: str
    description: str
    permission: str
    query: tuple[str, ...]
    guarded: bool


@dataclass(frozen=True, slots=True)
class AreaShown:
    """Those of one area."""

    name: str
    operations: tuple[OperationShown, ...]


@dataclass(frozen=True, slots=True)
class PermissionShown:
    """What a token may be given, and whose role has it."""

    name: str
    words: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiPage:
    """The whole of it."""

    template: ClassVar[str] = "admin/things/programs/api.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    base: str
    openapi: str
    example: str
    permissions: tuple[PermissionShown, ...]
    areas: tuple[AreaShown, ...]
