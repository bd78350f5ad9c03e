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
class OfferLine:
    """A team into which somebody asks the visitor; `url` is where to answer."""

    url: str
    app_name: str
    by: str


@dataclass(frozen=True, slots=True)
class OwnAppsPage:
    """List them, or invite to register the first."""

    template: ClassVar[str] = "developer/apps.html"

    apps: tuple[OwnAppLine, ...]
    may_register: bool = True
    #: Teams into which the visitor is asked.
    offers: tuple[OfferLine, ...] = ()
    #: One of them was just deleted.
    deleted: bool = False
