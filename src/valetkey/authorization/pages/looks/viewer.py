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
    #: What `--config` takes in commands for this server; "" where they work without.
    configuration: str = ""

    def command(self, rest: str) -> str:
        """A command for this server: `valetkey`, `rest` and the configuration that it needs."""
        named = f" --config {self.configuration}" if self.configuration else ""
        return f"valetkey {rest}{named}"


ANYBODY = Viewer()
"""Somebody about whom nothing is known."""
