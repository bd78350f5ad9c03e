"""Settings of the brand: name, colour, logo, links and theme of the pages."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import text


@dataclass(frozen=True, slots=True)
class BrandSettings:
    """What people recognise on the pages."""

    name: Annotated[str, text(60, "a name of at most 60 characters")] = "Valetkey"
    """The name of the service whose accounts these are."""

    accent: Annotated[str, rules.COLOUR] = "#2456d6"
    """The one colour of buttons and links. What stands on it is made readable, light and dark."""

    logo_url: Annotated[str, rules.LOGO_AT_START] = ""
    """The image above every page, 48 pixels high. Without it the theme's logo is shown."""

    terms_url: Annotated[str, rules.LINK] = ""
    """Terms of service, linked from every page."""

    privacy_url: Annotated[str, rules.LINK] = ""
    """Privacy statement, linked from every page."""

    theme: Annotated[str, rules.FOLDER] = ""
    """Directory with a stylesheet, a logo, templates and translations of your own. It is read as
    the server starts, which tells what is wrong with it."""
