"""Accounts: sign-up, second factors, sessions of administrators, and privacy."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import Group
from valetkey.kernel.moment import Lifetime, days, hours, minutes
from valetkey.kernel.words import translatable

# ruff: noqa: RUF009 - `days(30)` is a number: nothing that two settings could share and change


class SignUpMode(StrEnum):
    """Who may create an account."""

    OFF = "off"
    INVITATION = "invitation"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Sign-up and deletion of accounts."""

    GROUP: ClassVar = Group.SIGN_UP

    sign_up: Annotated[
        SignUpMode,
        rules.choice(
            SignUpMode,
            off=translatable("Administrators create all accounts"),
            invitation=translatable("Invited users"),
            open=translatable("Anyone with an email address"),
        ),
        "Users who may create an account",
    ] = SignUpMode.OFF
    """Who may create an account: `off` operators only, `invitation` invited users, `open` anyone
    with an email address."""

    deletion_grace: Annotated[
        Lifetime, rules.lifetime("1s", "90d"), "A deleted account can be kept for"
    ] = days(7)
    """Time in which a user can cancel the deletion of their account by signing in. Sessions and
    connected apps end immediately; personal data is deleted afterwards."""

    import_size: Annotated[
        int, rules.whole(1, 32, "MiB"), "Largest file of users", Group.DIRECTORIES
    ] = 8
    """Largest file of users that administrators may import."""

    import_users: Annotated[
        int, rules.whole(1, 200_000, "users"), "Most users in a file", Group.DIRECTORIES
    ] = 20_000
    """Maximum number of users in such a file. To import more, split them into several files."""

    @property
    def import_bytes(self) -> int:
        """The size of such a file in bytes."""
        return self.import_size * 1024 * 1024

    @property
    def import_upload(self) -> int:
        """The size of a form with such a file and other fields, in bytes."""
        return self.import_bytes + 64 * 1024


@dataclass(frozen=True, slots=True)
class FactorSettings:
    """Second factors and remembered browsers."""

    GROUP: ClassVar = Group.PASSWORDS

    remember_devices: Annotated[
        Lifetime, rules.lifetime("1h", "365d"), "Remember a browser for"
    ] = days(30)
    """Time for which a remembered browser skips the second factor. Longer is more convenient;
    shorter limits what a stolen device can do."""

    refuse_fallen_counters: Annotated[bool, rules.FLAG, "Refuse passkeys that may be copies"] = True
    """Refuse a passkey whose signature counter decreased, which suggests a copy. If off, it is only
    recorded as an event, for authenticators with unreliable counters."""


@dataclass(frozen=True, slots=True)
class AdministrationSettings:
    """Sessions in the console."""

    GROUP: ClassVar = Group.SESSIONS

    idle: Annotated[
        Lifetime, rules.lifetime("1m", "8h"), "Ask administrators again when idle for"
    ] = minutes(30)
    """Idle time after which the console asks an administrator to confirm their identity. They stay
    signed in otherwise."""

    lifetime: Annotated[
        Lifetime, rules.lifetime("5m", "1d"), "Ask administrators again in any case after"
    ] = hours(12)
    """Maximum time in the console before it asks again, however active the administrator is."""


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """IP addresses of users: whether they are recorded, for how long, and how they are shown."""

    GROUP: ClassVar = Group.PRIVACY

    record_ip_addresses: Annotated[bool, rules.FLAG, "Record IP addresses"] = True
    """Whether sessions, events, codes of devices and security emails have the IP address of the
    request. If off, none is recorded and those recorded before are erased. Rate limits store keyed
    hashes of networks instead, and the log of requests is not affected."""

    ip_address_retention: Annotated[
        Lifetime, rules.lifetime("1d", "3650d"), "Delete IP addresses after"
    ] = days(90)
    """Time after which an IP address is erased, of events with the browser. The session or event
    stays."""

    geo_database: Annotated[str, rules.PATH, "Database of places"] = ""
    """MaxMind DB file with cities or countries, such as GeoLite2-City.mmdb, to show the approximate
    place beside an IP address. It is looked up when a page is shown and never stored. Reload the
    server after replacing the file. Empty: no places."""
