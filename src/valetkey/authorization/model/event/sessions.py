"""Events of sessions and of ways to sign in."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser, Event


@dataclass(frozen=True, slots=True)
class SignInFailed(ByAnonymous):
    """A password was wrong, or there was no such account (`uid` is then absent)."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    door: str


@dataclass(frozen=True, slots=True)
class SessionStarted(ByUser):
    """A user signed in."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionRenewed(ByUser):
    """A signed-in user signed in again; the session continues."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentityConfirmed(ByUser):
    """A signed-in user authenticated again before a sensitive action."""

    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionEnded(ByUser):
    """A session ended; `because` says why."""

    uid: int
    session_id: str
    because: str


@dataclass(frozen=True, slots=True)
class LogoutTokenDelivered(BySystem):
    """A logout token was delivered and the client confirmed it."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LogoutTokenGivenUp(BySystem):
    """Delivery of a logout token was abandoned; `because` says why."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str


@dataclass(frozen=True, slots=True)
class SecondFactorFailed(ByAnonymous):
    """A second factor was wrong after a correct password."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    door: str


@dataclass(frozen=True, slots=True)
class PasskeyAdded(ByUser):
    """A passkey was added to an account."""

    uid: int
    passkey_id: str


@dataclass(frozen=True, slots=True)
class PasskeyRenamed(ByUser):
    """A passkey was renamed."""

    uid: int
    passkey_id: str


@dataclass(frozen=True, slots=True)
class PasskeyRemoved(ByUser):
    """A passkey was removed from an account."""

    uid: int
    passkey_id: str


@dataclass(frozen=True, slots=True)
class PasskeyCounterFallen(ByUser):
    """A passkey's signature counter decreased, so a copy of it may exist."""

    uid: int
    passkey_id: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class AuthenticatorAdded(ByUser):
    """An authenticator app was added to an account."""

    uid: int


@dataclass(frozen=True, slots=True)
class AuthenticatorRemoved(ByUser):
    """An authenticator app was removed from an account."""

    uid: int


@dataclass(frozen=True, slots=True)
class RecoveryCodesIssued(ByUser):
    """Recovery codes were issued; earlier ones no longer work."""

    uid: int


@dataclass(frozen=True, slots=True)
class RecoveryCodeUsed(ByUser):
    """A recovery code was used as the second factor; `left` is how many remain."""

    uid: int
    left: int


@dataclass(frozen=True, slots=True)
class PasswordRemoved(ByUser):
    """The password of an account was removed; its passkeys remain."""

    uid: int


@dataclass(frozen=True, slots=True)
class DeviceRemembered(ByUser):
    """A browser was remembered: the second factor is not requested there for a while."""

    uid: int
    device_id: str


@dataclass(frozen=True, slots=True)
class DeviceForgotten(ByUser):
    """A remembered browser was forgotten: the second factor is requested again."""

    uid: int
    device_id: str


@dataclass(frozen=True, slots=True)
class DeviceStolen(ByAnonymous):
    """A remembered browser's old cookie was used: it was copied, and its sessions ended."""

    uid: int
    device_id: str


@dataclass(frozen=True, slots=True)
class FactorsRemoved(Event):
    """All second factors of an account were removed by an administrator."""

    uid: int
