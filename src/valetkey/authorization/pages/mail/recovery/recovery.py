"""Who forgot their password: the question who they are, and the form for another one."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ForgottenPage:
    """Ask for a user name or an address. Posts `csrf` and `name`."""

    template: ClassVar[str] = "mail/recovery/forgotten.html"

    action: str
    csrf: str
    sign_in_url: str
    #: Whether letters can be sent at all.
    sends_mail: bool
    name: str = ""
    empty: bool = False
    wait: int = 0


@dataclass(frozen=True, slots=True)
class ResetPage:
    """Ask for another password. Posts `csrf`, `link` and `new`."""

    template: ClassVar[str] = "mail/recovery/reset.html"
    scripts: ClassVar[tuple[str, ...]] = ("strength.js",)

    action: str
    csrf: str
    link: str
    #: For the browser's list of passwords, and so that people see whose it is.
    username: str
    shortest: int
    #: What is wrong with the password; "" for nothing.
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ResetDonePage:
    """The password is another one now."""

    template: ClassVar[str] = "mail/recovery/done.html"

    sign_in_url: str
