"""Mail: the server that takes the letters to people, and who they are from."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import InvalidValue, quoted, text, whole
from valetkey.kernel.secret import Secret


class MailTransport(StrEnum):
    """What becomes of letters."""

    SMTP = "smtp"
    MAILBOX = "mailbox"


class MailTls(StrEnum):
    """How the connection to the mail server is kept from strangers' eyes."""

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
        raise InvalidValue(f"{quoted(value)} is not an e-mail address")
    return value


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Letters to people: to verify an address, to reset a password, to tell of a new device."""

    transport: Annotated[MailTransport, rules.choice(MailTransport)] = MailTransport.SMTP
    """`smtp` hands letters to the mail server `host`. `mailbox` sends none and shows all of them
    to anybody at /mailbox: for demos and tests, so it is refused off loopback."""

    host: Annotated[str, text(200, 'the name of a mail server, or "" for none', _host)] = ""
    """The mail server (SMTP). Empty: no mail is sent, and what needs it is not offered."""

    port: Annotated[int, whole(0, 65_535, "port")] = 0
    """Its port. 0: the usual one, which is 587 for `starttls`, 465 for `implicit`, 25 for
    `none`."""

    tls: Annotated[MailTls, rules.choice(MailTls)] = MailTls.STARTTLS
    """`starttls` begins in clear and goes on only once it is encrypted, `implicit` is encrypted
    from the first byte. `none` is for a mail server on this machine: letters hold links that sign
    people in again (RFC 8314)."""

    user: Annotated[str, text(200, 'the name to sign in with, or "" for none')] = ""
    """With what name this server signs in at the mail server. Empty: it does not."""

    password: Annotated[Secret | None, rules.SECRET] = None
    """The password that goes with it."""

    password_file: Annotated[str, rules.PATH] = ""
    """File with that password, for places where secrets come as files."""

    ca_file: Annotated[str, rules.PATH] = ""
    """PEM file with certificates to trust beside those of the system, for a mail server inside."""

    from_address: Annotated[
        str, text(200, 'an address, such as "no-reply@example.com"', _address)
    ] = ""
    """The address that letters come from. Its domain should let this mail server send for it (SPF,
    DKIM), or letters end as spam."""

    from_name: Annotated[str, text(60, "a name of at most 60 characters")] = ""
    """The name beside it. Empty: `brand.name`."""

    @property
    def is_mailbox(self) -> bool:
        """Whether letters are shown here instead of sent."""
        return self.transport is MailTransport.MAILBOX

    @property
    def used_port(self) -> int:
        """The port, the usual one where none was set."""
        return self.port or _PORTS[self.tls]

    @property
    def is_on(self) -> bool:
        """Whether letters go anywhere."""
        return self.is_mailbox or bool(self.host)
