"""Tokens of the admin API: whose they are, what they allow, and the end of one."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.deeds.admin.permissions import Permission
from valetkey.authorization.layout.contexts import When
from valetkey.kernel.words import translatable

PERMISSION_WORDS = {
    Permission.READ: translatable("See people, apps, events and settings"),
    Permission.RESET: translatable("Help people back into their accounts"),
    Permission.PEOPLE: translatable("Change, switch off and delete people"),
    Permission.CLIENTS: translatable("Change, switch off and verify apps"),
    Permission.KEYS: translatable("Rotate keys, and make more of these tokens"),
    Permission.SETTINGS: translatable("Change name, logo and colour"),
    Permission.ROLES: translatable("Give and take roles"),
}
"""What each lets a program do."""


@dataclass(frozen=True, slots=True)
class TokenLine:
    """One of them; `end_url` is "" where it does not work any more, or may not be ended."""

    id: str
    name: str
    maker: str
    maker_url: str
    permissions: tuple[str, ...]
    since: When
    until: str
    last_used: When | None
    works: bool
    end_url: str


@dataclass(frozen=True, slots=True)
class TokensPage:
    """All of them, newest first."""

    template: ClassVar[str] = "admin/things/programs/tokens.html"

    listed: tuple[TokenLine, ...]
    new_url: str
    docs_url: str
    more: str = ""
    first: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class NewTokenPage:
    """The form for another one; `choices` are what whoever asks may give it."""

    template: ClassVar[str] = "admin/things/programs/new.html"

    action: str
    back: str
    csrf: str
    choices: tuple[tuple[str, str], ...]
    name: str = ""
    chosen: tuple[str, ...] = ()
    days: str = "90"
    faults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenMadePage:
    """A token that was made just now, shown this once."""

    template: ClassVar[str] = "admin/things/programs/made.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    back: str
    name: str
    token: str
    until: str
    example: str


@dataclass(frozen=True, slots=True)
class EndTokenPage:
    """The question before one ends."""

    template: ClassVar[str] = "admin/things/programs/end.html"

    action: str
    back: str
    csrf: str
    name: str
    last_used: When | None
