"""Events of roles, the permission to register apps, and owner links."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import ByUser, Event


@dataclass(frozen=True, slots=True)
class RoleChanged(Event):
    """The role of a user changed; "" is none."""

    uid: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OwnerLinkIssued(Event):
    """A link that makes its user an owner was issued; `break_glass` where an owner existed."""

    break_glass: bool


@dataclass(frozen=True, slots=True)
class OwnerLinkRedeemed(ByUser):
    """An owner link was used."""

    uid: int
    break_glass: bool


@dataclass(frozen=True, slots=True)
class DeveloperAdmitted(Event):
    """A user was permitted to register apps."""

    uid: int


@dataclass(frozen=True, slots=True)
class DeveloperDismissed(Event):
    """A user lost the permission to register apps; their apps remain."""

    uid: int
