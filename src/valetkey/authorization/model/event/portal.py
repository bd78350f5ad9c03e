"""What happens to the teams of apps."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class TeamInvitationIssued(Event):
    """An owner asked somebody into the team of an app."""

    name: ClassVar[str] = "team_invitation.issued"
    client_id: str
    invitation_id: str
    role: str


@dataclass(frozen=True, slots=True)
class TeamInvitationEnded(Event):
    """Nobody can accept it any more: `withdrawn`, `declined`, `inviter_left` or `removed`."""

    name: ClassVar[str] = "team_invitation.ended"
    client_id: str
    invitation_id: str
    because: str


@dataclass(frozen=True, slots=True)
class TeamMemberAdded(Event):
    """A person came into the team of an app, as its owner or as a member."""

    name: ClassVar[str] = "team_member.added"
    client_id: str
    uid: int
    role: str


@dataclass(frozen=True, slots=True)
class TeamMemberChanged(Event):
    """A person in the team of an app has another role there."""

    name: ClassVar[str] = "team_member.changed"
    client_id: str
    uid: int
    role: str


@dataclass(frozen=True, slots=True)
class TeamMemberRemoved(Event):
    """A person left the team of an app, or was taken out of it."""

    name: ClassVar[str] = "team_member.removed"
    client_id: str
    uid: int
