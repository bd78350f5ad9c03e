"""What happens to roles, to the right to register apps, and to the link of the first owner."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByUser, Event


@dataclass(frozen=True, slots=True)
class RoleChanged(Event):
    """Somebody has another role than before; "" is none."""

    name: ClassVar[str] = "role.changed"
    uid: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OwnerLinkIssued(Event):
    """A link was made that makes its bearer an owner; `break_glass` though there was one."""

    name: ClassVar[str] = "owner_link.issued"
    break_glass: bool


@dataclass(frozen=True, slots=True)
class OwnerLinkRedeemed(ByUser):
    """That link was used."""

    name: ClassVar[str] = "owner_link.redeemed"
    uid: int
    break_glass: bool


@dataclass(frozen=True, slots=True)
class DeveloperAdmitted(Event):
    """Somebody may register apps from now on."""

    name: ClassVar[str] = "developer.admitted"
    uid: int


@dataclass(frozen=True, slots=True)
class DeveloperDismissed(Event):
    """Somebody may register no more apps; those they have stay."""

    name: ClassVar[str] = "developer.dismissed"
    uid: int
