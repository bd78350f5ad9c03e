"""Events of apps, their teams, and APIs."""

from typing import Literal

from valetkey.authorization.model.event.event import ByAnonymous, ByClient, Event
from valetkey.kernel.words import translatable

RemovedBecause = Literal["deleted", "unused", "replaced"]
"""Why a client is removed."""


class ClientRegistered(ByAnonymous, frozen=True):
    """A client was registered; `channel` says how, such as `portal` or `registration`."""

    sentence = translatable("The app %(client_id)s was registered.")

    client_id: str
    channel: str


class ClientChanged(ByClient, frozen=True):
    """A client was changed; `fields` names its changed fields, `channel` says how.

    A change by an operator carries each field's value before and after.
    """

    sentence = translatable("The app %(client_id)s was changed: %(fields)s.")

    client_id: str
    channel: str
    fields: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class ClientDisabled(Event, frozen=True):
    """A client was disabled; its grants, codes and tokens ended."""

    sentence = translatable("The app %(client_id)s was disabled.")

    client_id: str


class ClientEnabled(Event, frozen=True):
    """A client was enabled; what had ended stays ended."""

    sentence = translatable("The app %(client_id)s was enabled.")

    client_id: str


class ClientRemoved(ByClient, frozen=True):
    """A client was removed with its grants; `because` is `deleted`, `unused` or `replaced`.

    Operators, developers and the client itself delete it. A self-registered client is also removed
    when it is unused, and when a registration with the same metadata replaces it.
    """

    sentence = translatable("The app %(client_id)s was deleted.")

    client_id: str
    because: RemovedBecause


class ClientAdopted(Event, frozen=True):
    """An operator adopted a self-registered client."""

    sentence = translatable("The self-registered app %(client_id)s was adopted.")

    client_id: str


class ClientVerified(Event, frozen=True):
    """An administrator verified who runs a client; users see the mark."""

    sentence = translatable("The app %(client_id)s was verified.")

    client_id: str


class ClientVerificationEnded(ByClient, frozen=True):
    """A client lost its verification; `because` is `administrator` or `changed`."""

    sentence = translatable("The app %(client_id)s is no longer verified.")

    client_id: str
    because: str


class ClientSecretEnded(Event, frozen=True):
    """A client secret was revoked before it expired."""

    sentence = translatable("A secret of the app %(client_id)s was revoked.")

    client_id: str
    secret_id: str


class InvitationIssued(Event, frozen=True):
    """An operator issued an initial access token for client registration (RFC 7591)."""

    sentence = translatable("An invitation to register apps was issued.")

    invitation_id: str
    uses: int


class InvitationWithdrawn(Event, frozen=True):
    """An operator revoked an initial access token."""

    sentence = translatable("An invitation to register apps was withdrawn.")

    invitation_id: str


class ClientSecretIssued(ByClient, frozen=True):
    """A client secret was issued; the older ones expire at `others_expire_at`."""

    sentence = translatable("A secret was issued to the app %(client_id)s.")

    client_id: str
    secret_id: str
    others_expire_at: int | None = None


class ApiRegistered(Event, frozen=True):
    """An API was declared."""

    sentence = translatable("The API %(identifier)s was added.")

    api_id: str
    identifier: str


class ApiChanged(Event, frozen=True):
    """An API was changed; `fields` names its changed fields."""

    sentence = translatable("The API %(identifier)s was changed: %(fields)s.")

    api_id: str
    identifier: str
    fields: tuple[str, ...]


class ApiDisabled(Event, frozen=True):
    """An API was disabled; codes, tokens and grants for it ended."""

    sentence = translatable("The API %(identifier)s was disabled.")

    api_id: str
    identifier: str


class ApiEnabled(Event, frozen=True):
    """An API was enabled; what had ended stays ended."""

    sentence = translatable("The API %(identifier)s was enabled.")

    api_id: str
    identifier: str


class ApiRemoved(Event, frozen=True):
    """An API was deleted; codes, tokens and grants for it ended."""

    sentence = translatable("The API %(identifier)s was deleted.")

    api_id: str
    identifier: str


class TeamInvitationIssued(Event, frozen=True):
    """An owner invited a user to the team of an app."""

    sentence = translatable("A user was invited to the team of the app %(client_id)s.")

    client_id: str
    invitation_id: str
    role: str


class TeamInvitationEnded(Event, frozen=True):
    """A team invitation ended: `withdrawn`, `declined`, `inviter_left` or `removed`."""

    sentence = translatable("An invitation to the team of the app %(client_id)s ended.")

    client_id: str
    invitation_id: str
    because: str


class TeamMemberAdded(Event, frozen=True):
    """A user joined the team of an app, as an owner or a member."""

    sentence = translatable("%(uid)s joined the team of the app %(client_id)s.")

    client_id: str
    uid: int
    role: str


class TeamMemberChanged(Event, frozen=True):
    """The role of a team member changed."""

    sentence = translatable(
        "The role of %(uid)s in the team of the app %(client_id)s was changed to %(role)s."
    )

    client_id: str
    uid: int
    role: str


class TeamMemberRemoved(Event, frozen=True):
    """A user left the team of an app or was removed from it."""

    sentence = translatable(
        "%(uid)s left the team of the app %(client_id)s or was removed from it."
    )

    client_id: str
    uid: int
