"""The apps of a developer."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class OwnAppLine:
    """One app in the list. `domain` is where it sends people back to, "" for none."""

    head: AppHead
    domain: str
    profile: str
    verified: bool = False


@dataclass(frozen=True, slots=True)
class OwnAppsPage:
    """List them, or invite to register the first."""

    template: ClassVar[str] = "developer/apps.html"

    apps: tuple[OwnAppLine, ...]
    may_register: bool = True
    #: One of them was just deleted.
    deleted: bool = False
