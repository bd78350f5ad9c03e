"""For whom a page is made."""

from dataclasses import dataclass

from valetkey.authorization.pages.looks.language import ENGLISH, Language


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whoever looks: their language, and the areas that their navigation leads to."""

    language: Language = ENGLISH
    #: Whether they may register apps.
    develops: bool = False
    #: Whether they have a role in running this server.
    administers: bool = False


ANYBODY = Viewer()
"""Somebody about whom nothing is known."""
