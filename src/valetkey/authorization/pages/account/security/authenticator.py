"""How an authenticator app is set up."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class NewAuthenticatorPage:
    """Show a secret to scan or to type, and ask for a code of it.

    Posts `csrf`, `setup` (the secret, sealed) and `code`.
    """

    template: ClassVar[str] = "account/security/new_authenticator.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    action: str
    csrf: str
    setup: str
    #: The dark squares of the QR code as an SVG path, in a square of so many units.
    picture: str
    size: int
    #: The same as text.
    key: str
    wrong: bool = False
