"""Prove again who you are, before something that matters."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.who import SignedInPerson


@dataclass(frozen=True, slots=True)
class ConfirmPage:
    """Ask whoever is signed in for the strongest proof that their account knows.

    Posts `csrf` and `password`.
    """

    template: ClassVar[str] = "account/security/confirm.html"

    action: str
    csrf: str
    person: SignedInPerson
    #: For the browser's list of passwords.
    username: str
    #: The account has a password, and nothing stronger.
    by_password: bool = True
    failed: bool = False
    #: Seconds until another attempt is looked at; 0 when none has to be waited for.
    wait: int = 0
