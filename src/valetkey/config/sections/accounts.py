"""Accounts: who may have one, and how."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, days


class SignUp(StrEnum):
    """Who may make an account."""

    OFF = "off"
    INVITATION = "invitation"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Who may have an account, and how."""

    sign_up: Annotated[SignUp, rules.choice(SignUp)] = SignUp.OFF
    """`off`: accounts are made by who runs this server. `invitation`: by whoever was invited.
    `open`: by anybody who has an e-mail address."""

    deletion_grace: Annotated[Lifetime, rules.lifetime("1s", "90d")] = days(7)  # noqa: RUF009
    """Whoever deletes their account can change their mind for so long, by signing in. Sessions and
    connected apps end at once; the rest goes after that, for good."""
