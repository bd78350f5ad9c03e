"""Invitations: single-use links that let the owner of an email address create an account."""

from msgspec import Struct

from valetkey.authorization.email.links import LIFETIMES, SIGN_UP, Links
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.accounts import UserInvited
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.model.user import ascii_email, fold
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.secret import Secret

LIFETIME = LIFETIMES[VoucherKind.INVITATION]
"""How long an invitation can be used."""


class PeopleInvitations(Struct, frozen=True):
    """Creates and finds invitations. Its methods run inside a transaction."""

    links: Links
    outbox: MailOutbox

    def invite(self, tx: Transaction, email: str, link: Secret, language: str, now: Instant) -> str:
        """Invite an email address.

        Return the address of the invitation page; an email is sent if mail is on.

        `link` is from `links.fresh`. Returns "" if the address has an account already. The address
        must satisfy `is_mailable`.
        """
        email = ascii_email(email)
        if tx.users.find_by_name(email) is not None:
            return ""
        until = later(now, LIFETIME)
        says = {"email": email}
        self.links.issue(tx, VoucherKind.INVITATION, link, says, until, subject=fold(email))
        url = self.links.address(SIGN_UP, link)
        values = {"link": url, "days": str(LIFETIME // days(1))}
        message = Email(EmailKind.INVITATION, email, language, values, good_until=until)
        self.outbox.enqueue(tx, message, now)
        tx.events.add(UserInvited(), now)
        return url

    def find(self, tx: Transaction, text: str, now: Instant) -> str:
        """Return the email address that was invited; "" if the link is invalid."""
        found = self.links.find(tx, VoucherKind.INVITATION, text, now)
        return "" if found is None else found.data["email"]
