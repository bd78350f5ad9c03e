"""The mailroom: a letter is queued in the transaction of what it tells of, or not at all."""

from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.model.account.letter import LIFETIME, Letter, LetterKind, Mail
from valetkey.authorization.model.account.user import fold
from valetkey.authorization.storage.sign_in.throttles import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.mail import MailSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, hours, later
from valetkey.kernel.secret import fresh_id

ASKED_FOR = frozenset(
    {
        LetterKind.SIGN_UP,
        LetterKind.SIGN_UP_TAKEN,
        LetterKind.VERIFY_EMAIL,
        LetterKind.PASSWORD_RESET,
        LetterKind.EMAIL_CHANGE,
        LetterKind.TEAM_INVITATION,
    }
)
"""Letters that a form of ours writes to any address: few, or we would be a mail bomb."""

ASKED_LIMIT = Limit(5, hours(1))
"""Such letters to one address."""

NOTICE_LIMIT = Limit(30, hours(1))
"""All other letters to one address; those that can undo a change of it are counted apart."""


@dataclass(frozen=True, slots=True)
class Mailroom:
    """Where letters are handed in. Its methods run inside a transaction."""

    settings: MailSettings
    keyring: Keyring
    random: Callable[[int], bytes]

    @property
    def is_on(self) -> bool:
        """Whether anything can be sent at all; where it is not, features must say so."""
        return self.settings.is_on

    def post(self, tx: Transaction, letter: Letter, now: Instant) -> bool:
        """Queue it; it is sent soon after the transaction is committed.

        False, and nothing is queued, where mail is off or this address got enough for an hour.
        """
        if not self.is_on:
            return False
        asked = letter.kind in ASKED_FOR
        print_ = self.keyring.fingerprint_key.of("mail to", fold(letter.to))
        # Apart: no number of other notices may keep this one from being sent.
        told = "undo" if letter.kind is LetterKind.EMAIL_CHANGED else "told"
        bucket = f"mail_{'asked' if asked else told}:{print_}"
        if tx.throttles.take(bucket, ASKED_LIMIT if asked else NOTICE_LIMIT, now):
            return False
        self._queue(tx, letter, now, later(now, LIFETIME))
        return True

    def pretend(self, tx: Transaction, letter: Letter, now: Instant) -> None:
        """Do as much work as `post` for a letter that nobody gets.

        Who watches the clock must not learn whether an address is somebody's.
        """
        if self.is_on:
            print_ = self.keyring.fingerprint_key.of("mail to", fold(letter.to))
            tx.throttles.take(f"mail_asked:{print_}", ASKED_LIMIT, now)
            self._queue(tx, letter, now, now, sent=False)

    def _queue(
        self, tx: Transaction, letter: Letter, now: Instant, until: Instant, *, sent: bool = True
    ) -> None:
        mail_id = fresh_id("ml", self.random)
        is_kept = self.settings.is_mailbox
        if letter.good_until is not None and not is_kept:
            until = min(until, letter.good_until)
        mail = Mail(
            id=mail_id,
            kind=letter.kind,
            uid=letter.uid,
            sealed=self.keyring.sealer.seal(letter.encode(), _place(mail_id), self.random),
            attempts=0,
            due_at=now if sent and not is_kept else None,
            created_at=now,
            expires_at=until,
        )
        tx.mails.add(mail)

    def open(self, mail: Mail) -> Letter | None:
        """The letter; None if it was not sealed here, with a key that is still in the keyring."""
        data = self.keyring.sealer.open(mail.sealed, _place(mail.id))
        return None if data is None else Letter.decode(mail.kind, mail.uid, data)


def _place(mail_id: str) -> str:
    return f"mails.sealed:{mail_id}"
