"""The form for a new account, and the page of the link that finishes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import AskingApp


@dataclass(frozen=True, slots=True)
class SignUpPage:
    """Ask for everything that an account needs.

    Posts `csrf`, `username`, `email`, `name` and `new`, the password.
    """

    template: ClassVar[str] = "mail/sign_up/sign_up.html"
    scripts: ClassVar[tuple[str, ...]] = ("strength.js",)

    action: str
    csrf: str
    sign_in_url: str
    #: Characters in a password, at least.
    shortest: int
    app: AskingApp | None = None
    username: str = ""
    email: str = ""
    name: str = ""
    #: Whoever was invited has one address only: the one that the invitation went to.
    invited: bool = False
    #: By field: "empty", "wrong" or "taken"; for `new` what is wrong with a password.
    faults: Mapping[str, str] | None = None
    #: Seconds until another attempt is looked at.
    wait: int = 0


@dataclass(frozen=True, slots=True)
class SignUpClosedPage:
    """Nobody makes an account here, or by invitation only."""

    template: ClassVar[str] = "mail/sign_up/closed.html"

    sign_in_url: str
    by_invitation: bool


@dataclass(frozen=True, slots=True)
class FinishSignUpPage:
    """Make the account: a form with one button, and a password in another browser.

    Posts `csrf`, `link` and `password`.
    """

    template: ClassVar[str] = "mail/sign_up/finish.html"

    action: str
    csrf: str
    link: str
    username: str
    email: str
    asks_password: bool
    wrong: bool = False
    wait: int = 0
