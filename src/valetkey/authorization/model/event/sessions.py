"""Events of sessions and of ways to sign in."""

from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser, Event
from valetkey.kernel.words import translatable


class SignInFailed(ByAnonymous, frozen=True):
    """A sign-in failed; `because` says why.

    It is `wrong_password`, `unknown_user` (`uid` is then absent), `account_disabled`,
    `no_password`, `password_changed` (while it was verified) or `passkey_refused`; absent before
    version 0.3.
    """

    sentence = translatable("A sign-in as %(uid)s failed: %(because)s.")

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    channel: str
    because: str = ""


class SessionStarted(ByUser, frozen=True):
    """A user signed in."""

    sentence = translatable("%(uid)s signed in.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


class SessionRenewed(ByUser, frozen=True):
    """A signed-in user signed in again; the session continues."""

    sentence = translatable("%(uid)s signed in again.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


class IdentityConfirmed(ByUser, frozen=True):
    """A signed-in user authenticated again before a sensitive action."""

    sentence = translatable("%(uid)s confirmed their identity.")

    uid: int
    session_id: str
    methods: tuple[str, ...]


class SessionEnded(ByUser, frozen=True):
    """A session ended; `because` says why."""

    sentence = translatable("A session of %(uid)s ended: %(because)s.")

    uid: int
    session_id: str
    because: str


class LogoutTokenDelivered(BySystem, frozen=True):
    """A logout token was delivered and the client confirmed it."""

    sentence = translatable("The app %(client_id)s was notified that %(uid)s signed out.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int


class LogoutTokenGivenUp(BySystem, frozen=True):
    """Delivery of a logout token was abandoned; `because` says why."""

    sentence = translatable("The app %(client_id)s could not be notified that %(uid)s signed out.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str


class SecondFactorFailed(ByAnonymous, frozen=True):
    """A second factor was wrong after a correct password."""

    sentence = translatable("A sign-in as %(uid)s failed: wrong second factor.")

    affects_tokens: ClassVar[bool] = False
    uid: int
    channel: str


class PasskeyAdded(ByUser, frozen=True):
    """A passkey was added to an account."""

    sentence = translatable("A passkey was added to %(uid)s.")

    uid: int
    passkey_id: str


class PasskeyRenamed(ByUser, frozen=True):
    """A passkey was renamed."""

    sentence = translatable("A passkey of %(uid)s was renamed.")

    uid: int
    passkey_id: str


class PasskeyRemoved(ByUser, frozen=True):
    """A passkey was removed from an account."""

    sentence = translatable("A passkey of %(uid)s was removed.")

    uid: int
    passkey_id: str


class PasskeyCounterFallen(ByUser, frozen=True):
    """A passkey's signature counter decreased, so a copy of it may exist."""

    sentence = translatable("A passkey of %(uid)s was used that may have been copied.")

    uid: int
    passkey_id: str
    accepted: bool


class AuthenticatorAdded(ByUser, frozen=True):
    """An authenticator app was added to an account."""

    sentence = translatable("An authenticator app was added to %(uid)s.")

    uid: int


class AuthenticatorRemoved(ByUser, frozen=True):
    """An authenticator app was removed from an account."""

    sentence = translatable("The authenticator app of %(uid)s was removed.")

    uid: int


class RecoveryCodesIssued(ByUser, frozen=True):
    """Recovery codes were issued; earlier ones no longer work."""

    sentence = translatable("New recovery codes were created for %(uid)s.")

    uid: int


class RecoveryCodeUsed(ByUser, frozen=True):
    """A recovery code was used as the second factor; `left` is how many remain."""

    sentence = translatable("%(uid)s signed in with a recovery code; %(left)s left.")

    uid: int
    left: int


class PasswordRemoved(ByUser, frozen=True):
    """The password of an account was removed; its passkeys remain."""

    sentence = translatable("The password of %(uid)s was removed.")

    uid: int


class DeviceRemembered(ByUser, frozen=True):
    """A browser was remembered: the second factor is not requested there for a while."""

    sentence = translatable("A browser of %(uid)s was remembered and skips the second factor.")

    uid: int
    device_id: str


class DeviceForgotten(ByUser, frozen=True):
    """A remembered browser was forgotten: the second factor is requested again."""

    sentence = translatable("A remembered browser of %(uid)s was forgotten.")

    uid: int
    device_id: str


class DeviceStolen(ByAnonymous, frozen=True):
    """A remembered browser's old cookie was used: it was copied, and its sessions ended."""

    sentence = translatable(
        "A remembered browser of %(uid)s was forgotten because its cookie was used twice."
    )

    uid: int
    device_id: str


class SecondFactorWaived(Event, frozen=True):
    """The second factor that a user had to add is no longer required."""

    sentence = translatable("%(uid)s no longer has to add a second factor.")

    uid: int


class FactorsRemoved(Event, frozen=True):
    """All second factors of an account were removed by an administrator."""

    sentence = translatable("All second factors of %(uid)s were removed.")

    uid: int
