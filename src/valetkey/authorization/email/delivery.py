"""Deliver queued email over SMTP, at least once, from any worker."""

import asyncio
from collections.abc import Awaitable, Callable
from email.message import EmailMessage

from msgspec import Struct

from valetkey.authorization.email.message import message_of
from valetkey.authorization.email.outbox import MailOutbox
from valetkey.authorization.email.smtp import NotDelivered
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import LEASE, Email, QueuedEmail, kind_of
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.event.users import MailDispatched, MailGivenUp
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, Lifetime, hours, later, minutes, seconds
from valetkey.kernel.runtime import Runtime
from valetkey.web import log

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
            await asyncio.sleep(_LOOK_EVERY)

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
            known = kind_of(mail.kind) is not None
            because = "encrypted with another keyring" if known else "its feature was taken out"
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
