"""Requests to paste, with the app's own ids."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class SnippetText:
    """One program; `needs` is the command that installs what it needs, "" for nothing."""

    id: str
    language: str
    needs: str
    code: str


@dataclass(frozen=True, slots=True)
class StartPage:
    """Show the program in the language `chosen`."""

    template: ClassVar[str] = "developer/trial/start.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    snippets: tuple[SnippetText, ...]
    chosen: str
    #: Where the server stands, and what else a library may want to know.
    addresses: tuple[tuple[str, str], ...]
    has_secret: bool
    #: The programs send somebody to a browser; otherwise the app asks for itself.
    asks_people: bool = True
