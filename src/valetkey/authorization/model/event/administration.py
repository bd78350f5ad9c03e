"""Events of this server: keys, administration, webhooks."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import BySystem, ByUser, Event


@dataclass(frozen=True, slots=True)
class SigningKeyIssued(BySystem):
    """A signing key was published; it signs from `activates_at` on."""

    kid: str
    algorithm: str
    activates_at: int


@dataclass(frozen=True, slots=True)
class SigningKeyRetired(BySystem):
    """A signing key was retired; it stays published until its last token has expired."""

    kid: str


@dataclass(frozen=True, slots=True)
class SigningKeyWithdrawn(Event):
    """A signing key was withdrawn; nothing it signed is valid any more."""

    kid: str


@dataclass(frozen=True, slots=True)
class KeyringRotated(Event):
    """The key that encrypts stored secrets was replaced and all of them were encrypted again."""

    version: int


@dataclass(frozen=True, slots=True)
class DatabaseRestored(Event):
    """A backup was restored: everything issued before it ended, and a new epoch began."""

    epoch: int
    users_disabled: int
    clients_disabled: int


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


@dataclass(frozen=True, slots=True)
class WebhookCreated(Event):
    """A webhook was created for these events; none means every event."""

    webhook_id: str
    events: tuple[str, ...]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookChanged(Event):
    """Address, events or description of a webhook were changed."""

    webhook_id: str
    fields: tuple[str, ...]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookRemoved(Event):
    """A webhook was deleted; what waited for it is not sent."""

    webhook_id: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookEnabled(Event):
    """A webhook was enabled again."""

    webhook_id: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookDisabled(BySystem):
    """A webhook was disabled: by `operator` or `owner`, or `undelivered`, `gone`, `full`."""

    webhook_id: str
    because: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookSecretIssued(Event):
    """A webhook got a new signing secret; the one before also signs for another day."""

    webhook_id: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookMessageRequested(Event):
    """An operator had a test message or an earlier event sent to a webhook."""

    webhook_id: str
    event_id: str
    client_id: str | None = None
