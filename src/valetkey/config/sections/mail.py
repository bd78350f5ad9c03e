"""Email: the SMTP server, and the sender of messages."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import Group, InvalidValue, quoted, text, whole
from valetkey.kernel.secret import Secret
from valetkey.kernel.words import translatable


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


def _address(value: str) -> str:
    local, at, domain = value.rpartition("@")
    if value and (
        not (local and at and domain) or not value.isascii() or set(value) & set(' <>()[],;:"\\')
    ):
        raise InvalidValue(f"{quoted(value)} is not an email address")
    return value


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Outgoing email: verification, password reset, security notices."""

    GROUP: ClassVar = Group.EMAIL

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
        str, text(200, 'an address, such as "no-reply@example.com"', _address), "Sender address"
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
