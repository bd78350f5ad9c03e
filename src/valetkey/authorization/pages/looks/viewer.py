"""For whom a page is made."""

from dataclasses import dataclass

from valetkey.authorization.pages.looks.language import ENGLISH, LANGUAGES, Language


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whoever looks: their language, and the areas that their navigation leads to."""

    language: Language = ENGLISH
    #: Those they can switch to.
    languages: tuple[Language, ...] = LANGUAGES
    #: The address of the page, to come back to in another language; "" for none.
    here: str = ""
    #: Whether they may register apps.
    develops: bool = False
    #: Whether they have a role in running this server.
    administers: bool = False
    #: In whose time moments are told, such as Europe/Berlin; "" where nobody said.
    zone: str = ""


ANYBODY = Viewer()
"""Somebody about whom nothing is known."""
