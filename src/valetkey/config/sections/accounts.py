"""Accounts: who may have one, and how."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, days


class SignUp(StrEnum):
    """Who may create an account."""

    OFF = "off"
    INVITATION = "invitation"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Sign-up and deletion of accounts."""

    sign_up: Annotated[SignUp, rules.choice(SignUp)] = SignUp.OFF
    """Who may create an account: `off` operators only, `invitation` invited users, `open` anyone
    with an email address."""

    deletion_grace: Annotated[Lifetime, rules.lifetime("1s", "90d")] = days(7)  # noqa: RUF009
    """Time in which a user can cancel the deletion of their account by signing in. Sessions and
    connected apps end immediately; personal data is deleted afterwards."""

    import_size: Annotated[int, rules.whole(1, 32, "MiB")] = 8
    """Largest file of users that administrators may import."""

    import_users: Annotated[int, rules.whole(1, 200_000, "users")] = 20_000
    """Users in such a file. Import more by several files, one after the other."""

    @property
    def import_bytes(self) -> int:
        """The size of such a file in bytes."""
        return self.import_size * 1024 * 1024

    @property
    def import_upload(self) -> int:
        """The size of a form with such a file and other fields, in bytes."""
        return self.import_bytes + 64 * 1024
