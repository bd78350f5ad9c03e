"""Events of the administration of this server."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import ByUser, Event


@dataclass(frozen=True, slots=True)
class ApiTokenIssued(Event):
    """An admin API token was issued to a user, with these permissions until `expires_at`."""

    uid: int
    token_id: str
    permissions: tuple[str, ...]
    expires_at: int


@dataclass(frozen=True, slots=True)
class ApiTokenEnded(ByUser):
    """An admin API token was revoked."""

    uid: int
    token_id: str


@dataclass(frozen=True, slots=True)
class EventsExported(Event):
    """Events were exported in this format."""

    format: str


@dataclass(frozen=True, slots=True)
class BrandChanged(Event):
    """A setting of the brand changed, such as `name` or `accent`."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ScimCredentialIssued(Event):
    """A credential for provisioning by SCIM was issued."""

    credential_id: str


@dataclass(frozen=True, slots=True)
class ScimCredentialRotated(Event):
    """A SCIM credential got another token; the one before works until `previous_until`."""

    credential_id: str
    previous_until: int


@dataclass(frozen=True, slots=True)
class ScimCredentialEnded(Event):
    """A SCIM credential was ended."""

    credential_id: str
