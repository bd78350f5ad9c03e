"""The question before something that opens an account is taken from it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Removed(StrEnum):
    """What is taken away."""

    PASSKEY = "passkey"
    AUTHENTICATOR = "authenticator"
    PASSWORD = "password"


@dataclass(frozen=True, slots=True)
class RemovePage:
    """Ask once, and say what stops working. Posts `csrf`."""

    template: ClassVar[str] = "account/security/remove.html"

    action: str
    csrf: str
    what: Removed
    #: What the passkey is called.
    name: str = ""
    #: It is the last second factor of the account.
    last: bool = False
    #: Nobody could sign in any more.
    impossible: bool = False
