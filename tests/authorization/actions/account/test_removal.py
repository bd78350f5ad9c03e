"""Letters about the end of an account: when it is planned, and when it is done."""

from pathlib import Path

import pytest

from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.account.removal import Removal
from valetkey.authorization.email.message import RenderedEmail, write
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import EmailKind, MailKind
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.runtime import SYSTEM

MAIL = MailSettings(host="127.0.0.1", from_address="acme@example.com")


def removal(it: Harness, grace: int) -> Removal:
    keyring = it.foundation.keyring
    return Removal("https://id.example", MailOutbox(MAIL, keyring, SYSTEM.random), days(grace))


async def letters(it: Harness, deed: Removal) -> list[tuple[MailKind, str, RenderedEmail]]:
    """What waits to be sent."""
    mails = await it.write(lambda tx: tx.mails.lease(it.clock.now, Instant(it.clock.now + 60), 10))
    emails = [deed.outbox.open(mail) for mail in mails]
    return [(email.kind, email.to, write(email, brand=Brand("Acme"))) for email in emails if email]


async def ada(it: Harness) -> User:
    user = await it.read(lambda tx: tx.users.find(ADA))
    assert user is not None
    return user


@pytest.mark.parametrize(("grace", "words"), [(1, "in 1 day."), (7, "in 7 days.")])
def test_user_gets_an_email_when_removal_is_planned_and_when_it_is_done(
    tmp_path: Path, grace: int, words: str
) -> None:
    async def story(it: Harness) -> None:
        deed, user = removal(it, grace), await ada(it)
        due = await it.write(lambda tx: deed.plan(tx, user, it.clock.now))
        assert due == it.clock.now + days(grace)
        ((kind, to, letter),) = await letters(it, deed)
        assert (kind, to) == (EmailKind.REMOVAL_PLANNED, user.email)
        assert letter.subject == "Your Acme account will be deleted"
        assert words in letter.text.replace("\n", " ")
        again = await it.write(lambda tx: deed.plan(tx, user, it.clock.now))
        assert again == due, "who asks twice is told the same, and gets no second letter"
        it.clock.forward(days(grace))
        assert await it.write(lambda tx: deed.sweep(tx, it.clock.now)) == 1
        done = [email for email in await letters(it, deed) if email[0] is EmailKind.REMOVED]
        ((_, to, letter),) = done
        assert to == user.email
        assert letter.subject == "Your Acme account was deleted"
        assert f"Acme account {user.username}" in letter.text.replace("\n", " ")
        assert (await ada(it)).email == ""

    run(tmp_path, story)


def test_account_is_removed_although_mail_is_off(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def work(tx: Transaction) -> bool:
            user = tx.users.find(ADA)
            assert user is not None
            return it.foundation.removal.remove(tx, user, it.clock.now)

        assert await it.write(work)
        assert await it.read(lambda tx: tx.account_removals.is_done(ADA))

    run(tmp_path, story)
