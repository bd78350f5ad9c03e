"""Deliver queued email over SMTP (RFC 5321), at least once, from any worker."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.email.message import message_of
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import LEASE, Email, QueuedEmail, kind_of
from valetkey.authorization.model.event.accounts import MailDispatched, MailGivenUp
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.sections.people import MailTls
from valetkey.config.settings import Settings
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, Lifetime, hours, later, minutes, seconds
from valetkey.kernel.pace import rest
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import Runtime, import_lazily
from valetkey.web import log

if TYPE_CHECKING:
    import aiosmtplib
else:
    aiosmtplib = import_lazily("aiosmtplib")

_STEP = 20.0
"""Maximum seconds for each response of the mail server."""

_WHOLE = 60.0
"""Maximum seconds for one email: less than the lease of its delivery."""

_PERMANENT = range(500, 600)


class NotDelivered(Exception):
    """The mail server did not accept the email; `reason` is a few words without text from it.

    `for_good` says that a retry is useless, `of_server` that no email can be sent now.
    """

    def __init__(self, reason: str, *, for_good: bool = False, of_server: bool = False) -> None:
        """Store the reason."""
        super().__init__(reason)
        self.reason = reason
        self.for_good = for_good
        self.of_server = of_server


@dataclass(frozen=True, slots=True)
class MailServer:
    """The configured mail server. A connection is used for one email."""

    settings: Settings
    password: str = field(repr=False)
    tls: ssl.SSLContext = field(repr=False)

    @staticmethod
    def from_settings(settings: Settings) -> "MailServer":
        """Read password and CA file. Raises OperatorError if one cannot be read."""
        mail, directory = settings.mail, settings.source.directory
        password = "" if mail.password is None else mail.password.reveal()
        if mail.password_file:
            password = _read(directory / mail.password_file, "mail.password_file").strip()
        tls = ssl.create_default_context()
        if mail.ca_file:
            text = _read(directory / mail.ca_file, "mail.ca_file")
            try:
                tls.load_verify_locations(cadata=text)
            except ssl.SSLError as error:
                raise OperatorError("it holds no certificates", "mail.ca_file") from error
        return MailServer(settings, password, tls)

    async def send(self, message: EmailMessage) -> None:
        """Send to the address in the To header. Raises NotDelivered."""
        sender = self.settings.mail.from_address
        try:
            async with asyncio.timeout(_WHOLE):
                server = await self._connect()
                try:
                    await server.send_message(message, sender=sender)
                finally:
                    await _leave(server)
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [refused.code for refused in error.recipients]
            for_good = all(code in _PERMANENT for code in codes)
            raise NotDelivered(f"recipient rejected with {codes[0]}", for_good=for_good) from error
        except aiosmtplib.SMTPDataError as error:
            raise NotDelivered(
                f"message rejected with {error.code}", for_good=error.code in _PERMANENT
            ) from error
        except (aiosmtplib.SMTPException, OSError, ValueError, TimeoutError) as error:
            raise NotDelivered(reason_of(error), of_server=True) from error

    async def check(self) -> None:
        """Connect, sign in and disconnect, without sending. Raises NotDelivered."""
        try:
            async with asyncio.timeout(_WHOLE):
                await _leave(await self._connect())
        except (aiosmtplib.SMTPException, OSError, ValueError, TimeoutError) as error:
            raise NotDelivered(reason_of(error), of_server=True) from error

    async def _connect(self) -> "aiosmtplib.SMTP":
        mail = self.settings.mail
        server = aiosmtplib.SMTP(
            hostname=mail.host,
            port=mail.used_port,
            username=mail.user or None,
            password=self.password if mail.user else None,
            # Asked of the system it could mean waiting for a name server.
            local_hostname=_own_name(self.settings.authorization.url),
            timeout=_STEP,
            use_tls=mail.tls is MailTls.IMPLICIT,
            start_tls=mail.tls is MailTls.STARTTLS,
            tls_context=self.tls,
        )
        await server.connect()
        return server


def reason_of(error: BaseException) -> str:
    """Name the reason why an email was not sent, without text from the mail server."""
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return f"sign-in rejected with {error.code}"
    # That STARTTLS is missing the library says with its most general class.
    if isinstance(error, aiosmtplib.SMTPNotSupported) or type(error) is aiosmtplib.SMTPException:
        return "no support for STARTTLS or the sign-in method"
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"answered {error.code}"
    cause = error.__cause__ or error
    if isinstance(error, ssl.SSLError) or isinstance(cause, ssl.SSLError):
        return "invalid certificate, or TLS failed"
    if isinstance(error, TimeoutError | aiosmtplib.SMTPTimeoutError):
        return "no answer in time"
    if isinstance(error, aiosmtplib.SMTPConnectError | OSError):
        return "no connection"
    return "connection closed" if isinstance(error, aiosmtplib.SMTPException) else "invalid address"


async def _leave(server: "aiosmtplib.SMTP") -> None:
    with suppress(aiosmtplib.SMTPException, OSError):
        await server.quit()
    server.close()


def _own_name(url: str) -> str:
    host = urlsplit(url).hostname or "localhost"
    is_number = host.replace(".", "").isdigit()
    return f"[IPv6:{host}]" if ":" in host else f"[{host}]" if is_number else host


def _read(file: Path, setting: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise OperatorError(f"{file} cannot be read", setting) from error


PAUSES = (seconds(5), seconds(30), minutes(2), minutes(10), minutes(30), hours(1), hours(2))
"""Pauses after the first, second, … failed attempt; the last one applies to all further ones."""

BATCH = 4
"""Emails that one process attempts at a time: mail servers count connections."""

_LOOK_EVERY = 1.0

Send = Callable[[EmailMessage], Awaitable[None]]
"""Hands a message to the mail server; raises NotDelivered."""

BrandNow = Callable[[], Brand]
"""Returns the current brand."""


class MailDelivery(Struct, frozen=True):
    """Delivers queued email. Any number of processes may do so at the same time."""

    store: Store
    outbox: MailOutbox
    send: Send
    brand: BrandNow
    runtime: Runtime

    async def deliver(self) -> None:
        """Send due emails, in any number of processes, checking every second."""
        # From the start, so that the first attempt is an increase.
        for outcome in ("delivered", "failed"):
            metrics.MAILS.add(outcome, amount=0)
        while True:
            while await self.deliver_some():
                pass
            await rest(_LOOK_EVERY)

    async def deliver_some(self) -> bool:
        """Attempt one batch in parallel; return whether more may be due."""
        now = self.runtime.now()
        if not await self.store.read(lambda tx: tx.mails.is_any_due(now)):
            return False
        until = later(now, LEASE)
        leased = await self.store.write(
            lambda tx: tx.mails.lease(now, until, BATCH), done_by=SYSTEM
        )
        attempts = [self._attempt(mail) for mail in leased]
        for failure in await asyncio.gather(*attempts, return_exceptions=True):
            # Attempted again when the lease has expired.
            if isinstance(failure, Exception):
                log.error("mail.failed", failure)
        return len(leased) == BATCH

    async def _attempt(self, mail: QueuedEmail) -> None:
        email = self.outbox.open(mail)
        if email is None:
            is_known = kind_of(mail.kind) is not None
            because = "encrypted with another keyring" if is_known else "its feature was taken out"
            await self._give_up(mail, because)
            return
        if mail.expires_at <= self.runtime.now():
            await self._give_up(mail, "expired before delivery")
            return
        try:
            await self._send(mail, email)
        except NotDelivered as failure:
            metrics.MAILS.add("failed")
            reason = failure.reason
            if failure.of_server:
                log.throttled("warning", "mail.unsent", reason, attempts=mail.attempts)
            else:
                log.info("mail.unsent", kind=mail.kind, attempts=mail.attempts, reason=reason)
            if failure.for_good:
                await self._give_up(mail, failure.reason)
            else:
                await self._again(mail, failure.reason)
        else:
            metrics.MAILS.add("delivered")
            now = self.runtime.now()
            await self.store.write(lambda tx: _sent(tx, mail, now), done_by=SYSTEM)

    async def _send(self, mail: QueuedEmail, email: Email) -> None:
        settings = self.outbox.settings
        try:
            message = message_of(
                email,
                brand=self.brand(),
                mail_id=mail.id,
                from_address=settings.from_address,
                from_name=settings.from_name,
                at=mail.created_at,
            )
        except ValueError as error:
            raise NotDelivered("invalid address", for_good=True) from error
        await self.send(message)

    async def _again(self, mail: QueuedEmail, because: str) -> None:
        due_at = later(self.runtime.now(), pause(mail.attempts))
        if due_at < mail.expires_at:
            await self.store.write(lambda tx: tx.mails.postpone(mail, due_at), done_by=SYSTEM)
        else:
            await self._give_up(mail, because)

    async def _give_up(self, mail: QueuedEmail, because: str) -> None:
        now = self.runtime.now()

        def abandon(tx: Transaction) -> None:
            if tx.mails.finish(mail.id):
                tx.events.add(MailGivenUp(mail.uid, mail.kind, mail.attempts, because), now)

        await self.store.write(abandon, done_by=SYSTEM)


def _sent(tx: Transaction, mail: QueuedEmail, now: Instant) -> None:
    if tx.mails.finish(mail.id):
        tx.events.add(MailDispatched(mail.uid, mail.kind, mail.attempts), now)


def pause(attempts: int) -> Lifetime:
    """Return how long to wait after this number of attempts, at least one."""
    return PAUSES[min(attempts, len(PAUSES)) - 1]
