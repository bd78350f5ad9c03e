"""One app at a glance."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """What its developer needs most: its id, where it stands, and what to do next."""

    template: ClassVar[str] = "developer/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    #: The address of this server, which the app needs as well.
    issuer: str
    profile: str
    redirect_uris: tuple[str, ...]
    description: str = ""
