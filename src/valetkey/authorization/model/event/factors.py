"""What happens to passkeys, authenticator apps, recovery codes and remembered devices."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, ByUser, Event


@dataclass(frozen=True, slots=True)
class SecondFactorFailed(ByAnonymous):
    """A code or a passkey was wrong, after a password that was right."""

    name: ClassVar[str] = "second_factor.failed"
    uid: int
    door: str


@dataclass(frozen=True, slots=True)
class PasskeyAdded(ByUser):
    """A passkey was added to an account."""

    name: ClassVar[str] = "passkey.added"
    uid: int
    passkey_id: str


@dataclass(frozen=True, slots=True)
class PasskeyRenamed(ByUser):
    """A passkey has another name now."""

    name: ClassVar[str] = "passkey.renamed"
    uid: int
    passkey_id: str


@dataclass(frozen=True, slots=True)
class PasskeyRemoved(ByUser):
    """A passkey opens its account no more."""

    name: ClassVar[str] = "passkey.removed"
    uid: int
    passkey_id: str


@dataclass(frozen=True, slots=True)
class PasskeyCounterFell(ByUser):
    """A passkey told a lower count of its uses than before: there may be a copy of it."""

    name: ClassVar[str] = "passkey_counter.fallen"
    uid: int
    passkey_id: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class AuthenticatorAdded(ByUser):
    """An authenticator app was added to an account."""

    name: ClassVar[str] = "authenticator.added"
    uid: int


@dataclass(frozen=True, slots=True)
class AuthenticatorRemoved(ByUser):
    """The codes of an authenticator app count no more."""

    name: ClassVar[str] = "authenticator.removed"
    uid: int


@dataclass(frozen=True, slots=True)
class RecoveryCodesIssued(ByUser):
    """Recovery codes were made; those before them count no more."""

    name: ClassVar[str] = "recovery_codes.issued"
    uid: int


@dataclass(frozen=True, slots=True)
class RecoveryCodeUsed(ByUser):
    """A recovery code took the place of a second factor; so many are left."""

    name: ClassVar[str] = "recovery_code.used"
    uid: int
    left: int


@dataclass(frozen=True, slots=True)
class PasswordRemoved(ByUser):
    """An account has no password any more: its passkeys open it."""

    name: ClassVar[str] = "password.removed"
    uid: int


@dataclass(frozen=True, slots=True)
class DeviceRemembered(ByUser):
    """In this browser the second factor is not asked for, for a while."""

    name: ClassVar[str] = "device.remembered"
    uid: int
    device_id: str


@dataclass(frozen=True, slots=True)
class DeviceForgotten(ByUser):
    """In this browser it is asked for again."""

    name: ClassVar[str] = "device.forgotten"
    uid: int
    device_id: str


@dataclass(frozen=True, slots=True)
class DeviceReused(ByAnonymous):
    """A remembered device's old cookie came back: it was copied. What it began has ended."""

    name: ClassVar[str] = "device.stolen"
    uid: int
    device_id: str


@dataclass(frozen=True, slots=True)
class FactorsReset(Event):
    """Everything but the password was taken from an account, for somebody who lost it."""

    name: ClassVar[str] = "factors.removed"
    uid: int
