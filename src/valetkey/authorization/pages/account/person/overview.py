"""The front page of an account: who one is, what may use it, whether it is safe, what happened."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.pages.account.activity import ActivityLine
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.pages.who import SignedInPerson


@dataclass(frozen=True, slots=True)
class OwnApp:
    """An app that the person allowed something and can open from here."""

    name: str
    domain: str
    #: An address of this server that leads to the app.
    url: str


class NextStep(StrEnum):
    """The one thing that would do the account most good."""

    NOTHING = ""
    EMAIL = "email"  # show that the address is theirs
    SECOND_FACTOR = "second_factor"  # a password alone signs them in


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Everything at a glance. Signing out posts `csrf` to `sign_out_action`."""

    template: ClassVar[str] = "account/person/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    sign_out_action: str
    csrf: str
    person: SignedInPerson
    #: Apps that may use the account.
    connected: int
    #: Browsers in which they are signed in, this one among them.
    sessions: int
    #: When the password was set; None where there is none.
    password_since: When | None
    #: A password alone does not sign them in.
    second_factor: bool
    email_verified: bool
    next_step: NextStep = NextStep.NOTHING
    #: Those that can be opened from here.
    apps: tuple[OwnApp, ...] = ()
    lines: tuple[ActivityLine, ...] = ()
