"""The password of an account, and the form that changes it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.deeds.account.password_change import NewPasswordFault
from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class PasswordPage:
    """Ask for the current password and twice for another.

    Posts `csrf`, `current`, `new` and `again`. Nothing that was typed is shown again: all of it is
    secret.
    """

    template: ClassVar[str] = "account/security/password.html"
    scripts: ClassVar[tuple[str, ...]] = ("strength.js",)

    action: str
    csrf: str
    #: Shown, and for the browser's list of passwords.
    username: str
    #: Characters in a new password, at least.
    shortest: int
    #: When the password was set; None where the account has none.
    since: When | None
    changed: bool = False
    #: The current password was not the right one.
    wrong: bool = False
    #: Seconds until another attempt is looked at.
    wait: int = 0
    fault: NewPasswordFault | None = None
