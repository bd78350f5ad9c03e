"""Email administration: state of the queue, and a test message."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.email.outbox import MailOutbox
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.storage.administration.client_search import END
from valetkey.authorization.storage.administration.event_search import EventFilter
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

_SHOWN = 10


class EmailQueueState(Struct, frozen=True):
    """The number of queued emails, and the results of the latest, newest first."""

    waiting: int
    sent: Sequence[EventRecord]
    given_up: Sequence[EventRecord]


def look(tx: Transaction, actor: Actor) -> EmailQueueState:
    """Return the state of the email queue. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    sent = EventFilter(name="mail.dispatched")
    given_up = EventFilter(name="mail.given_up")
    return EmailQueueState(
        tx.mails.waiting(),
        tx.event_search.page(sent, END, _SHOWN),
        tx.event_search.page(given_up, END, _SHOWN),
    )


def send_test(
    tx: Transaction, actor: Actor, outbox: MailOutbox, uid: Uid, now: Instant
) -> User | None:
    """Send a test email to the calling administrator; None if mail is off.

    The recipient cannot be chosen, so that this cannot be used to send email to others. Raises
    Refused (forbidden).
    """
    require(tx, actor, Permission.SETTINGS)
    user = tx.users.find(uid)
    if user is None:
        return None
    message = Email(EmailKind.TEST, user.email, user.claims.locale, {}, user.uid)
    return user if outbox.enqueue(tx, message, now) else None


def transport_of(outbox: MailOutbox) -> Literal["smtp", "mailbox", "off"]:
    """Return how email is delivered."""
    if not outbox.is_on:
        return "off"
    return "mailbox" if outbox.settings.is_mailbox else "smtp"
