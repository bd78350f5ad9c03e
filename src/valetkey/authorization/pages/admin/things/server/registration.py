"""Who may register apps: the policy, and the invitations with which apps register themselves."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


@dataclass(frozen=True, slots=True)
class InvitationLine:
    """One that can still be spent."""

    id: str
    note: str
    uses_left: int
    since: When
    until: str
    #: Where it is withdrawn; "" where whoever looks may not.
    withdraw_url: str


@dataclass(frozen=True, slots=True)
class RegistrationPage:
    """The policy, and the form for another invitation.

    `mode` is `off`, `token` or `open`; `people` is who may register apps on the developer pages:
    `nobody`, `invited`, `verified` or `everybody`.
    """

    template: ClassVar[str] = "admin/things/server/registration.html"

    action: str
    csrf: str
    mode: str
    people: str
    unused_days: int
    apps_url: str
    invitations: tuple[InvitationLine, ...]
    may_invite: bool = True
    note: str = ""
    uses: str = "1"
    days: str = "7"
    faults: tuple[tuple[str, str], ...] = ()
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class InvitationPage:
    """A token that was made just now, shown this once."""

    template: ClassVar[str] = "admin/things/server/invitation.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    back: str
    token: str
    endpoint: str
    uses: int
    until: str
