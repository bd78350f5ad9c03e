"""Settings about people: accounts, the email they get, the brand they see."""

# ruff: noqa: RUF009 - `days(30)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import InvalidValue, SettingsGroup, quoted, text, whole
from valetkey.kernel.moment import Lifetime, days, hours, minutes
from valetkey.kernel.secret import Secret
from valetkey.kernel.text import translatable


class SignUpMode(StrEnum):
    """Who may create an account."""

    OFF = "off"
    INVITATION = "invitation"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Sign-up and deletion of accounts."""

    GROUP: ClassVar = SettingsGroup.SIGN_UP

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
        int, rules.whole(1, 32, "MiB"), "Largest file of users", SettingsGroup.DIRECTORIES
    ] = 8
    """Largest file of users that administrators may import."""

    import_users: Annotated[
        int, rules.whole(1, 200_000, "users"), "Most users in a file", SettingsGroup.DIRECTORIES
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

    GROUP: ClassVar = SettingsGroup.PASSWORDS

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

    GROUP: ClassVar = SettingsGroup.SESSIONS

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

    GROUP: ClassVar = SettingsGroup.PRIVACY

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


class MailTransport(StrEnum):
    """The ways to deliver email."""

    SMTP = "smtp"
    MAILBOX = "mailbox"


class MailTls(StrEnum):
    """TLS of the connection to the mail server."""

    STARTTLS = "starttls"
    IMPLICIT = "implicit"
    NONE = "none"


_PORTS = MappingProxyType({MailTls.STARTTLS: 587, MailTls.IMPLICIT: 465, MailTls.NONE: 25})


def _host(value: str) -> str:
    if value and not (value.isascii() and value.replace("-", "a").replace(".", "a").isalnum()):
        raise InvalidValue(f"{quoted(value)} is not the name of a host")
    return value


def mail_address(value: str) -> str:
    """Return the email address, or "". Raises InvalidValue for anything else."""
    local, at, domain = value.rpartition("@")
    if value and (
        not (local and at and domain) or not value.isascii() or set(value) & set(' <>()[],;:"\\')
    ):
        raise InvalidValue(f"{quoted(value)} is not an email address")
    return value


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Outgoing email: verification, password reset, security notices."""

    GROUP: ClassVar = SettingsGroup.EMAIL

    transport: Annotated[
        MailTransport,
        rules.choice(
            MailTransport,
            smtp=translatable("By a mail server"),
            mailbox=translatable("Shown on a page, for demos"),
        ),
        "Delivery of email",
    ] = MailTransport.SMTP
    """`smtp` sends email through the mail server `host`. `mailbox` sends nothing and shows every
    email at /mailbox to anyone: for demos and tests, on loopback only."""

    host: Annotated[
        str, text(200, 'the name of a mail server, or "" for none', _host), "Mail server"
    ] = ""
    """The mail server (SMTP). Empty: no email is sent, and features that need it are not
    offered."""

    port: Annotated[int, whole(0, 65_535, ""), "Port of the mail server"] = 0
    """The mail server's port. 0: 587 for `starttls`, 465 for `implicit`, 25 for `none`."""

    tls: Annotated[
        MailTls,
        rules.choice(
            MailTls,
            starttls=translatable("STARTTLS, after connecting"),
            implicit=translatable("TLS from the start"),
            none=translatable("No TLS"),
        ),
        "TLS to the mail server",
    ] = MailTls.STARTTLS
    """`starttls` upgrades the connection before anything is sent, `implicit` uses TLS from the
    start. `none` is for a mail server on the same machine only: emails contain links that sign
    users in (RFC 8314)."""

    user: Annotated[
        str, text(200, 'the name to sign in with, or "" for none'), "Username at the mail server"
    ] = ""
    """The username at the mail server. Empty: no authentication."""

    password: Annotated[Secret | None, rules.SECRET, "Password at the mail server"] = None
    """The password at the mail server."""

    password_file: Annotated[str, rules.PATH, "File with the password at the mail server"] = ""
    """File with the password, instead of `password`."""

    ca_file: Annotated[str, rules.PATH, "Certificates to trust for email"] = ""
    """PEM file with certificates to trust in addition to those of the system, for an internal mail
    server."""

    from_address: Annotated[
        str, text(200, 'an address, such as "no-reply@example.com"', mail_address), "Sender address"
    ] = ""
    """The sender address. The SPF and DKIM records of its domain should cover the mail server, or
    email is treated as spam."""

    from_name: Annotated[str, text(60, "a name of at most 60 characters"), "Sender name"] = ""
    """The sender name. Empty: `brand.name`."""

    @property
    def is_mailbox(self) -> bool:
        """Whether emails are shown on a page instead of sent."""
        return self.transport is MailTransport.MAILBOX

    @property
    def used_port(self) -> int:
        """The port, the usual one where none was set."""
        return self.port or _PORTS[self.tls]

    @property
    def is_on(self) -> bool:
        """Whether emails are sent or shown."""
        return self.is_mailbox or bool(self.host)


@dataclass(frozen=True, slots=True)
class BrandSettings:
    """Name, color, logo and links on all pages."""

    GROUP: ClassVar = SettingsGroup.BRAND

    name: Annotated[str, text(60, "a name of at most 60 characters"), "Name of the service"] = (
        "Valetkey"
    )
    """The name of your service."""

    accent: Annotated[str, rules.COLOUR, "Accent color"] = "#2456d6"
    """The color of buttons and links. Text on it is adjusted to stay readable, in light and dark
    mode."""

    logo_url: Annotated[str, rules.LOGO_AT_START, "Path of the logo"] = ""
    """Path of the logo on every page, 48 pixels high. Empty: the logo of the theme."""

    logo_dark_url: Annotated[str, rules.LOGO, "Path of the logo in dark mode"] = ""
    """Path of the logo in dark mode. Empty: the same logo."""

    terms_url: Annotated[str, rules.LINK, "Terms of service"] = ""
    """Terms of service, linked from every page."""

    privacy_url: Annotated[str, rules.LINK, "Privacy statement"] = ""
    """Privacy statement, linked from every page."""

    theme: Annotated[str, rules.FOLDER, "Folder of the theme"] = ""
    """Directory with a stylesheet, logo, templates and translations of your own. It is checked when
    the server starts."""


class BrandField(StrEnum):
    """A setting under `brand`."""

    NAME = "name"
    ACCENT = "accent"
    LOGO_URL = "logo_url"
    LOGO_DARK_URL = "logo_dark_url"
    TERMS_URL = "terms_url"
    PRIVACY_URL = "privacy_url"


@dataclass(frozen=True, slots=True)
class DocumentationSettings:
    """The documentation that pages and commands link to."""

    GROUP: ClassVar = SettingsGroup.BRAND

    url: Annotated[str, rules.LINK, "URL of the documentation"] = ""
    """URL of a copy of the documentation site. Empty: the authorization server serves its own copy
    under `/docs/`, the one of its version. With a URL it serves none."""
