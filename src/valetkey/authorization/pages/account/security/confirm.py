"""Prove again who you are, before something that matters."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.who import SignedInPerson


@dataclass(frozen=True, slots=True)
class ConfirmPage:
    """Ask whoever is signed in for the strongest proof that their account knows.

    Posts `csrf` and `password`; or `credential`, `code` or `recovery` where there is more to show.
    """

    template: ClassVar[str] = "account/security/confirm.html"
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    csrf: str
    person: SignedInPerson
    #: For the browser's list of passwords.
    username: str
    #: The account has a password, and nothing stronger.
    by_password: bool = True
    #: What the browser needs to use a passkey, as JSON; "" where the account has none.
    passkey: str = ""
    has_code: bool = False
    has_recovery: bool = False
    #: What was wrong: "password", "passkey", "code" or "recovery"; "" for nothing.
    wrong: str = ""
    #: Seconds until another attempt is looked at; 0 when none has to be waited for.
    wait: int = 0
