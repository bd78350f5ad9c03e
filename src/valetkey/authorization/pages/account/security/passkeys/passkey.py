"""A passkey: how one is made, and what it is called."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class NewPasskeyPage:
    """Have the browser make a passkey. Posts `csrf`, `name` and `credential`."""

    template: ClassVar[str] = "account/security/passkeys/new.html"
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    csrf: str
    #: What the browser needs, as JSON.
    options: str
    #: What it is to be called: suggested, or as it was typed.
    name: str
    wrong_name: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class PasskeyPage:
    """One passkey. Posts `csrf` and `name`; `remove` is where its end is asked for."""

    template: ClassVar[str] = "account/security/passkeys/passkey.html"

    action: str
    csrf: str
    shown_name: str
    name: str
    since: When
    last_used: When | None
    synced: bool
    remove: str
    wrong_name: bool = False
