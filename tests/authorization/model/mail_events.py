"""Letters that arrive, and one that does not."""

from email.message import EmailMessage

from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.account.email_change import EmailAddresses
from valetkey.authorization.actions.account.passwords import PasswordReset
from valetkey.authorization.actions.account.sign_up import PeopleInvitations
from valetkey.authorization.authentication.password import PasswordSignIn
from valetkey.authorization.email.delivery import MailDelivery, NotDelivered
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings, MailTransport
from valetkey.kernel.moment import days, later
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.web.offload import Offload

_BOX = MailSettings(transport=MailTransport.MAILBOX)
_SETTINGS = MailSettings(host="mail.example", from_address="no-reply@auth.example")


async def letters(it: Harness) -> None:
    """The post takes one letter, and refuses another for good."""
    outbox = MailOutbox(_SETTINGS, it.foundation.keyring, SYSTEM.random)
    answers = [None, NotDelivered("recipient rejected with 550", for_good=True)]

    async def send(message: EmailMessage) -> None:
        if failure := answers.pop():
            raise failure

    runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
    office = MailDelivery(it.foundation.store, outbox, send, Brand, runtime)
    letter = Email(EmailKind.TEST, "ada@example.com", "en", uid=ADA)
    for _ in "12":
        await it.write(lambda tx: outbox.enqueue(tx, letter, it.clock.now))
    await office.deliver_some()


async def links(it: Harness) -> None:
    """Somebody is invited, somebody forgot their password, an address takes an account back."""
    outbox = MailOutbox(_BOX, it.foundation.keyring, SYSTEM.random)
    made, now = it.foundation.links, it.clock.now
    link = made.fresh()
    invitations = PeopleInvitations(made, outbox)
    assert await it.write(lambda tx: invitations.invite(tx, "grace@example.com", link, "en", now))
    email = EmailAddresses(it.foundation.store, made, outbox)
    undo = made.fresh()
    says = {"uid": str(ADA), "email": "old@example.com"}
    until = later(now, days(1))

    def hold(tx: Transaction) -> None:
        made.issue(tx, VoucherKind.EMAIL_UNDO, undo, says, until, says["uid"])
        tx.users.hold_email(ADA, "old@example.com", until)

    await it.write(hold)
    assert await email.undo(undo.reveal(), now)
    offload = Offload(1, 1)
    passwords = PasswordSignIn(
        it.foundation.store,
        offload,
        it.foundation.keyring.fingerprint_key,
        it.settings.passwords,
        it.settings.limits,
        SYSTEM.random,
    )
    reset = PasswordReset(made, outbox, it.foundation.accounts(), passwords)
    assert not await reset.request_reset("old@example.com", "192.0.2.1", "en", now)
    offload.close()
