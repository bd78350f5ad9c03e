"""Events of passkeys, authenticator apps, recovery codes and remembered devices."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, ByUser, Event


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
