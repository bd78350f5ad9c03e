"""Settings of the brand: name, colour, logo, links and theme of the pages."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import text


@dataclass(frozen=True, slots=True)
class BrandSettings:
    """Name, color, logo and links on all pages."""

    name: Annotated[str, text(60, "a name of at most 60 characters")] = "Valetkey"
    """The name of your service."""

    accent: Annotated[str, rules.COLOUR] = "#2456d6"
    """The color of buttons and links. Text on it is adjusted to stay readable, in light and dark
    mode."""

    logo_url: Annotated[str, rules.LOGO_AT_START] = ""
    """Path of the logo on every page, 48 pixels high. Empty: the logo of the theme."""

    terms_url: Annotated[str, rules.LINK] = ""
    """Terms of service, linked from every page."""

    privacy_url: Annotated[str, rules.LINK] = ""
    """Privacy statement, linked from every page."""

    theme: Annotated[str, rules.FOLDER] = ""
    """Directory with a stylesheet, logo, templates and translations of your own. It is checked when
    the server starts."""


class BrandField(StrEnum):
    """A setting under `brand`."""

    NAME = "name"
    ACCENT = "accent"
    LOGO_URL = "logo_url"
    TERMS_URL = "terms_url"
    PRIVACY_URL = "privacy_url"
