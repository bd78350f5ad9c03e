"""Queue email in the transaction of the change that it announces."""

from collections.abc import Callable

from msgspec import Struct

from valetkey.authorization.model.account.user import fold
from valetkey.authorization.model.email import LIFETIME, Email, EmailKind, QueuedEmail, kind_of
from valetkey.authorization.storage.sign_in.throttles import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.mail import MailSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, hours, later
from valetkey.kernel.secret import fresh_id

ASKED_FOR = frozenset(
    {
        EmailKind.SIGN_UP,
        EmailKind.SIGN_UP_TAKEN,
        EmailKind.VERIFY_EMAIL,
        EmailKind.PASSWORD_RESET,
        EmailKind.ACCOUNT_CREATED,
        EmailKind.EMAIL_CHANGE,
        EmailKind.TEAM_INVITATION,
    }
)
"""Emails that a form can send to any address; limited, so that no mailbox is flooded."""

ASKED_LIMIT = Limit(5, hours(1))
"""Maximum rate of those emails to one address."""

NOTICE_LIMIT = Limit(30, hours(1))
"""Maximum rate of all other emails to one address; those with an undo link count separately."""


class MailOutbox(Struct, frozen=True):
    """The email queue, as its senders use it. Its methods run inside a transaction."""

    settings: MailSettings
    keyring: Keyring
    random: Callable[[int], bytes]

    @property
    def is_on(self) -> bool:
        """Return whether email is sent, or kept for the mailbox page.

        Pages must say if neither is the case.
        """
        return self.settings.is_on

    def enqueue(self, tx: Transaction, email: Email, now: Instant) -> bool:
        """Queue an email; it is sent soon after the transaction is committed.

        False if email is off or the address has reached its limit for an hour: nothing is queued.
        """
        if not self.is_on:
            return False
        asked = email.kind in ASKED_FOR
        print_ = self.keyring.fingerprint_key.of("mail to", fold(email.to))
        # Apart: no number of other notices may keep this one from being sent.
        told = "undo" if email.kind is EmailKind.EMAIL_CHANGED else "told"
        bucket = f"mail_{'asked' if asked else told}:{print_}"
        if tx.throttles.take(bucket, ASKED_LIMIT if asked else NOTICE_LIMIT, now):
            return False
        self._queue(tx, email, now, later(now, LIFETIME))
        return True

    def enqueue_decoy(self, tx: Transaction, email: Email, now: Instant) -> None:
        """Do as much work as `enqueue` for an email that is not sent.

        Response times must not tell whether an address belongs to an account.
        """
        if self.is_on:
            print_ = self.keyring.fingerprint_key.of("mail to", fold(email.to))
            tx.throttles.take(f"mail_asked:{print_}", ASKED_LIMIT, now)
            self._queue(tx, email, now, now, sent=False)

    def _queue(
        self, tx: Transaction, email: Email, now: Instant, until: Instant, *, sent: bool = True
    ) -> None:
        mail_id = fresh_id("ml", self.random)
        is_kept = self.settings.is_mailbox
        if email.good_until is not None and not is_kept:
            until = min(until, email.good_until)
        mail = QueuedEmail(
            id=mail_id,
            kind=email.kind.value,
            uid=email.uid,
            sealed=self.keyring.sealer.seal(email.encode(), _place(mail_id), self.random),
            attempts=0,
            due_at=now if sent and not is_kept else None,
            created_at=now,
            expires_at=until,
        )
        tx.mails.add(mail)

    def open(self, mail: QueuedEmail) -> Email | None:
        """Decrypt an email; None if no key of the keyring encrypted it, or its kind is unknown."""
        data, kind = self.keyring.sealer.open(mail.sealed, _place(mail.id)), kind_of(mail.kind)
        return None if data is None or kind is None else Email.decode(kind, mail.uid, data)


def _place(mail_id: str) -> str:
    return f"mails.sealed:{mail_id}"
