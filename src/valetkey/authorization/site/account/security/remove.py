"""The question before a way to sign in is removed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Removed(StrEnum):
    """The kinds of factors that can be removed."""

    PASSKEY = "passkey"
    AUTHENTICATOR = "authenticator"
    PASSWORD = "password"


@dataclass(frozen=True, slots=True)
class RemovePage:
    """The context of remove.html. Its form posts `csrf`."""

    template: ClassVar[str] = "account/security/remove.html"

    action: str
    csrf: str
    what: Removed
    #: The name of the passkey.
    name: str = ""
    #: It is the last second factor of the account.
    last: bool = False
    #: The user could not sign in any more.
    impossible: bool = False
