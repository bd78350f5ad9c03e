"""What happens to clients and to those who register them."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from valetkey.authorization.model.event.event import ByAnonymous, ByClient, Event

RemovedBecause = Literal["deleted", "unused", "replaced"]
"""Why a client is removed."""


@dataclass(frozen=True, slots=True)
class ClientRegistered(ByAnonymous):
    """A client was registered; `door` says through which door."""

    name: ClassVar[str] = "client.registered"
    client_id: str
    door: str


@dataclass(frozen=True, slots=True)
class ClientChanged(ByClient):
    """A client's record was changed; `fields` names what, `door` through which door.

    What an operator changed is told as it was before and as it is after, field by field.
    """

    name: ClassVar[str] = "client.changed"
    client_id: str
    door: str
    fields: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientDisabled(Event):
    """A client was switched off; everything it held has ended."""

    name: ClassVar[str] = "client.disabled"
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientEnabled(Event):
    """A client was switched on again; nothing that ended came back."""

    name: ClassVar[str] = "client.enabled"
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientRemoved(ByClient):
    """A client was removed with all it held; `because` is `deleted`, `unused` or `replaced`.

    Operators, developers and the client itself delete. One that registered itself is also removed
    when nobody uses it, and when another of the same metadata takes its place.
    """

    name: ClassVar[str] = "client.removed"
    client_id: str
    because: RemovedBecause


@dataclass(frozen=True, slots=True)
class ClientAdopted(Event):
    """An operator made a client that had registered itself one of their own."""

    name: ClassVar[str] = "client.adopted"
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientVerified(Event):
    """An administrator says that they know who is behind a client; people read it."""

    name: ClassVar[str] = "client.verified"
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientVerificationEnded(ByClient):
    """They say so no more; `because` is `administrator`, or `changed` where its looks did."""

    name: ClassVar[str] = "client_verification.ended"
    client_id: str
    because: str


@dataclass(frozen=True, slots=True)
class ClientSecretEnded(Event):
    """One of a client's secrets was ended before its time."""

    name: ClassVar[str] = "client_secret.ended"
    client_id: str
    secret_id: str


@dataclass(frozen=True, slots=True)
class InvitationIssued(Event):
    """An operator made a token with which applications may register themselves."""

    name: ClassVar[str] = "invitation.issued"
    invitation_id: str
    uses: int


@dataclass(frozen=True, slots=True)
class InvitationWithdrawn(Event):
    """An operator took such a token back."""

    name: ClassVar[str] = "invitation.withdrawn"
    invitation_id: str


@dataclass(frozen=True, slots=True)
class ClientSecretIssued(ByClient):
    """A client was given another secret; the older ones expire at `others_expire_at`."""

    name: ClassVar[str] = "client_secret.issued"
    client_id: str
    secret_id: str
    others_expire_at: int | None = None
