"""Events of sessions and of ways to sign in."""

from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser, Event


class SignInFailed(ByAnonymous, frozen=True):
    """A password was wrong, or there was no such account (`uid` is then absent)."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    channel: str


class SessionStarted(ByUser, frozen=True):
    """A user signed in."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


class SessionRenewed(ByUser, frozen=True):
    """A signed-in user signed in again; the session continues."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


class IdentityConfirmed(ByUser, frozen=True):
    """A signed-in user authenticated again before a sensitive action."""

    uid: int
    session_id: str
    methods: tuple[str, ...]


class SessionEnded(ByUser, frozen=True):
    """A session ended; `because` says why."""

    uid: int
    session_id: str
    because: str


class LogoutTokenDelivered(BySystem, frozen=True):
    """A logout token was delivered and the client confirmed it."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int


class LogoutTokenGivenUp(BySystem, frozen=True):
    """Delivery of a logout token was abandoned; `because` says why."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str


class SecondFactorFailed(ByAnonymous, frozen=True):
    """A second factor was wrong after a correct password."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    channel: str


class PasskeyAdded(ByUser, frozen=True):
    """A passkey was added to an account."""

    uid: int
    passkey_id: str


class PasskeyRenamed(ByUser, frozen=True):
    """A passkey was renamed."""

    uid: int
    passkey_id: str


class PasskeyRemoved(ByUser, frozen=True):
    """A passkey was removed from an account."""

    uid: int
    passkey_id: str


class PasskeyCounterFallen(ByUser, frozen=True):
    """A passkey's signature counter decreased, so a copy of it may exist."""

    uid: int
    passkey_id: str
    accepted: bool


class AuthenticatorAdded(ByUser, frozen=True):
    """An authenticator app was added to an account."""

    uid: int


class AuthenticatorRemoved(ByUser, frozen=True):
    """An authenticator app was removed from an account."""

    uid: int


class RecoveryCodesIssued(ByUser, frozen=True):
    """Recovery codes were issued; earlier ones no longer work."""

    uid: int


class RecoveryCodeUsed(ByUser, frozen=True):
    """A recovery code was used as the second factor; `left` is how many remain."""

    uid: int
    left: int


class PasswordRemoved(ByUser, frozen=True):
    """The password of an account was removed; its passkeys remain."""

    uid: int


class DeviceRemembered(ByUser, frozen=True):
    """A browser was remembered: the second factor is not requested there for a while."""

    uid: int
    device_id: str


class DeviceForgotten(ByUser, frozen=True):
    """A remembered browser was forgotten: the second factor is requested again."""

    uid: int
    device_id: str


class DeviceStolen(ByAnonymous, frozen=True):
    """A remembered browser's old cookie was used: it was copied, and its sessions ended."""

    uid: int
    device_id: str


class FactorsRemoved(Event, frozen=True):
    """All second factors of an account were removed by an administrator."""

    uid: int
