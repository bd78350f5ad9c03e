"""The brand of the pages, and the documentation."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import Group, text


@dataclass(frozen=True, slots=True)
class BrandSettings:
    """Name, color, logo and links on all pages."""

    GROUP: ClassVar = Group.BRAND

    name: Annotated[str, text(60, "a name of at most 60 characters"), "Name of the service"] = (
        "Valetkey"
    )
    """The name of your service."""

    accent: Annotated[str, rules.COLOUR, "Accent color"] = "#2456d6"
    """The color of buttons and links. Text on it is adjusted to stay readable, in light and dark
    mode."""

    logo_url: Annotated[str, rules.LOGO_AT_START, "Path of the logo"] = ""
    """Path of the logo on every page, 48 pixels high. Empty: the logo of the theme."""

    logo_dark_url: Annotated[str, rules.LOGO, "Path of the logo in dark mode"] = ""
    """Path of the logo in dark mode. Empty: the same logo."""

    terms_url: Annotated[str, rules.LINK, "Terms of service"] = ""
    """Terms of service, linked from every page."""

    privacy_url: Annotated[str, rules.LINK, "Privacy statement"] = ""
    """Privacy statement, linked from every page."""

    theme: Annotated[str, rules.FOLDER, "Folder of the theme"] = ""
    """Directory with a stylesheet, logo, templates and translations of your own. It is checked when
    the server starts."""


class BrandField(StrEnum):
    """A setting under `brand`."""

    NAME = "name"
    ACCENT = "accent"
    LOGO_URL = "logo_url"
    LOGO_DARK_URL = "logo_dark_url"
    TERMS_URL = "terms_url"
    PRIVACY_URL = "privacy_url"


@dataclass(frozen=True, slots=True)
class DocumentationSettings:
    """The documentation that pages and commands link to."""

    GROUP: ClassVar = Group.BRAND

    url: Annotated[str, rules.LINK, "URL of the documentation"] = ""
    """URL of a copy of the documentation site. Empty: the authorization server serves its own copy
    under `/docs/`, the one of its version. With a URL it serves none."""
