"""Events of the teams of apps."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class TeamInvitationIssued(Event):
    """An owner invited a user to the team of an app."""

    client_id: str
    invitation_id: str
    role: str


@dataclass(frozen=True, slots=True)
class TeamInvitationEnded(Event):
    """A team invitation ended: `withdrawn`, `declined`, `inviter_left` or `removed`."""

    client_id: str
    invitation_id: str
    because: str


@dataclass(frozen=True, slots=True)
class TeamMemberAdded(Event):
    """A user joined the team of an app, as an owner or a member."""

    client_id: str
    uid: int
    role: str


@dataclass(frozen=True, slots=True)
class TeamMemberChanged(Event):
    """The role of a team member changed."""

    client_id: str
    uid: int
    role: str


@dataclass(frozen=True, slots=True)
class TeamMemberRemoved(Event):
    """A user left the team of an app or was removed from it."""

    client_id: str
    uid: int
