"""Events of apps, their teams, and APIs."""

from dataclasses import dataclass
from typing import Literal

from valetkey.authorization.model.event.event import ByAnonymous, ByClient, Event

RemovedBecause = Literal["deleted", "unused", "replaced"]
"""Why a client is removed."""


@dataclass(frozen=True, slots=True)
class ClientRegistered(ByAnonymous):
    """A client was registered; `door` says how, such as `portal` or `registration`."""

    client_id: str
    door: str


@dataclass(frozen=True, slots=True)
class ClientChanged(ByClient):
    """A client was changed; `fields` names its changed fields, `door` says how.

    A change by an operator carries each field's value before and after.
    """

    client_id: str
    door: str
    fields: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientDisabled(Event):
    """A client was disabled; its grants, codes and tokens ended."""

    client_id: str


@dataclass(frozen=True, slots=True)
class ClientEnabled(Event):
    """A client was enabled; what had ended stays ended."""

    client_id: str


@dataclass(frozen=True, slots=True)
class ClientRemoved(ByClient):
    """A client was removed with its grants; `because` is `deleted`, `unused` or `replaced`.

    Operators, developers and the client itself delete it. A self-registered client is also removed
    when it is unused, and when a registration with the same metadata replaces it.
    """

    client_id: str
    because: RemovedBecause


@dataclass(frozen=True, slots=True)
class ClientAdopted(Event):
    """An operator adopted a self-registered client."""

    client_id: str


@dataclass(frozen=True, slots=True)
class ClientVerified(Event):
    """An administrator verified who runs a client; users see the mark."""

    client_id: str


@dataclass(frozen=True, slots=True)
class ClientVerificationEnded(ByClient):
    """A client lost its verification; `because` is `administrator` or `changed`."""

    client_id: str
    because: str


@dataclass(frozen=True, slots=True)
class ClientSecretEnded(Event):
    """A client secret was revoked before it expired."""

    client_id: str
    secret_id: str


@dataclass(frozen=True, slots=True)
class InvitationIssued(Event):
    """An operator issued an initial access token for client registration (RFC 7591)."""

    invitation_id: str
    uses: int


@dataclass(frozen=True, slots=True)
class InvitationWithdrawn(Event):
    """An operator revoked an initial access token."""

    invitation_id: str


@dataclass(frozen=True, slots=True)
class ClientSecretIssued(ByClient):
    """A client secret was issued; the older ones expire at `others_expire_at`."""

    client_id: str
    secret_id: str
    others_expire_at: int | None = None


@dataclass(frozen=True, slots=True)
class ApiRegistered(Event):
    """An API was declared."""

    api_id: str
    identifier: str


@dataclass(frozen=True, slots=True)
class ApiChanged(Event):
    """An API was changed; `fields` names its changed fields."""

    api_id: str
    identifier: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiDisabled(Event):
    """An API was disabled; codes, tokens and grants for it ended."""

    api_id: str
    identifier: str


@dataclass(frozen=True, slots=True)
class ApiEnabled(Event):
    """An API was enabled; what had ended stays ended."""

    api_id: str
    identifier: str


@dataclass(frozen=True, slots=True)
class ApiRemoved(Event):
    """An API was deleted; codes, tokens and grants for it ended."""

    api_id: str
    identifier: str


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
