"""What opens an account, at a glance."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


class Done(StrEnum):
    """What the page before did."""

    PASSKEY_ADDED = "passkey-added"
    PASSKEY_RENAMED = "passkey-renamed"
    PASSKEY_REMOVED = "passkey-removed"
    AUTHENTICATOR_ADDED = "authenticator-added"
    AUTHENTICATOR_REMOVED = "authenticator-removed"
    PASSWORD_REMOVED = "password-removed"
    DEVICE_FORGOTTEN = "device-forgotten"


@dataclass(frozen=True, slots=True)
class PasskeyLine:
    """One passkey; `synced` ones are on other devices of its person too."""

    id: str
    name: str
    synced: bool
    since: When
    last_used: When | None = None


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A browser in which the second factor is not asked for; "" where it did not say which."""

    id: str
    browser: str
    system: str
    last_used: When
    here: bool = False


@dataclass(frozen=True, slots=True)
class SecurityPage:
    """Password, passkeys, authenticator app, recovery codes, remembered devices.

    Its forms post `csrf`, and `device` for one of the devices.
    """

    template: ClassVar[str] = "account/security/overview.html"

    csrf: str
    devices_action: str
    #: None where the account has no password.
    password_since: When | None
    passkeys: tuple[PasskeyLine, ...] = ()
    #: False at an address for which browsers allow no passkeys.
    can_have_passkeys: bool = True
    authenticator_since: When | None = None
    recovery_left: int = 0
    devices: tuple[DeviceLine, ...] = ()
    #: Accounts elsewhere from which they sign in; None where nobody can.
    elsewhere: int | None = None
    done: Done | None = None

    @property
    def has_second_factor(self) -> bool:
        """Whether a password alone does not open the account."""
        return bool(self.passkeys) or self.authenticator_since is not None
