"""The second step: show something that you have."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import AskingApp


@dataclass(frozen=True, slots=True)
class SecondFactorPage:
    """Ask for a passkey, a code of an authenticator app, or a recovery code.

    Posts `csrf` and `credential`, `code` or `recovery`, and `remember` where it is ticked; or
    `decision=deny` when the visitor turns back.
    """

    template: ClassVar[str] = "visitor/sign_in/second_factor.html"
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    csrf: str
    #: Where to begin again, as somebody else.
    begins: str
    username: str
    app: AskingApp | None = None
    #: What the browser needs to use a passkey, as JSON; "" where the account has none.
    passkey: str = ""
    has_code: bool = False
    has_recovery: bool = False
    #: What was wrong: "passkey", "code" or "recovery"; "" for nothing.
    wrong: str = ""
    #: Seconds until another code is looked at.
    wait: int = 0
    #: Days in which this browser would not be asked again.
    days: int = 0
