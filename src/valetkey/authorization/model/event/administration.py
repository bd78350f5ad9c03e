"""Events of this server: keys, administration."""

from types import MappingProxyType

from valetkey.authorization.model.event.event import (
    ActivityKind,
    ActivityText,
    BySystem,
    ByUser,
    Event,
)
from valetkey.kernel.text import translatable


class SigningKeyIssued(BySystem, frozen=True):
    """A signing key was published; it signs from `activates_at` on."""

    subject = "key:{kid}"
    sentence = translatable("A signing key for %(algorithm)s was published.")

    kid: str
    algorithm: str
    activates_at: int


class SigningKeyRetired(BySystem, frozen=True):
    """A signing key was retired; it stays published until its last token has expired."""

    subject = "key:{kid}"
    sentence = translatable("A signing key was retired.")

    kid: str


class SigningKeyWithdrawn(Event, frozen=True):
    """A signing key was withdrawn; nothing it signed is valid any more."""

    subject = "key:{kid}"
    is_alarming = True
    sentence = translatable(
        "A signing key was withdrawn; tokens signed with it are no longer valid."
    )

    kid: str


class KeyringRotated(Event, frozen=True):
    """The key that encrypts stored secrets was replaced and all of them were encrypted again."""

    sentence = translatable(
        "The keyring was rotated; version %(version)s now encrypts stored secrets."
    )

    version: int


class DatabaseRestored(Event, frozen=True):
    """A backup was restored: everything issued before it ended, and a new epoch began."""

    is_alarming = True
    sentence = translatable("A backup of the database was restored.")

    epoch: int
    users_disabled: int
    clients_disabled: int


class ApiTokenIssued(Event, frozen=True):
    """An admin API token was issued to a user, with these permissions until `expires_at`."""

    subject = "token:{token_id}"
    is_alarming = True
    sentence = translatable("The API token %(token_id)s was created for %(uid)s.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("An API token for this server was created.")
    )

    uid: int
    token_id: str
    permissions: tuple[str, ...]
    expires_at: int


class ApiTokenEnded(ByUser, frozen=True):
    """An admin API token was revoked."""

    subject = "token:{token_id}"
    sentence = translatable("The API token %(token_id)s of %(uid)s was revoked.")
    activity = ActivityText(
        ActivityKind.SECURITY, translatable("An API token for this server was revoked.")
    )

    uid: int
    token_id: str


class EventsExported(Event, frozen=True):
    """Events were exported in this format."""

    sentence = translatable("Events were exported as %(format)s.")

    format: str


class BrandChanged(Event, frozen=True):
    """A setting of the brand changed, such as `name` or `accent`."""

    subject = "brand:{field}"
    sentence = translatable("The setting %(field)s of the brand was changed.")

    field: str
    before: str
    after: str


class SettingChanged(Event, frozen=True):
    """A setting was changed while the server ran, or reset to the value without the change."""

    subject = "setting:{setting}"
    sentence = translatable("The setting %(setting)s was changed from %(before)s to %(after)s.")
    without = MappingProxyType(
        {
            "before": translatable("The setting %(setting)s was set to %(after)s."),
            "after": translatable("The setting %(setting)s was cleared; it was %(before)s."),
        }
    )

    setting: str
    before: str
    after: str
