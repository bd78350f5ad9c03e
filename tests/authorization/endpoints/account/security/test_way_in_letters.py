"""Who adds a way in to an account is told of by letter to its person, whoever it was."""

from pathlib import Path

from tests.authorization.endpoints.account.security.factors import with_app, with_passkey
from tests.support.harness import Harness
from tests.support.visitors import ALICE, run
from valetkey.authorization.email.message import write
from valetkey.authorization.layout.brand import Brand
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


async def told(it: Harness) -> list[str]:
    """What the letters that wait say."""
    until = Instant(it.clock.now + 60)
    mails = await it.store.write(lambda tx: tx.mails.lease(it.clock.now, until, 10))
    letters = [it.foundation.outbox.open(mail) for mail in mails]
    return [write(letter, brand=Brand("Acme")).text for letter in letters if letter is not None]


def test_mf_05_added_authenticator_app_is_reported_by_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        proven = replace(ALICE, email_verified_at=it.clock.now)
        assert await it.store.write(lambda tx: tx.users.change(proven))
        await with_app(it)
        assert any("An authenticator app was added" in text for text in await told(it))

    run(tmp_path, story, mail=MailSettings(host="mail.example"))


def test_mf_05_added_passkey_is_reported_by_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        proven = replace(ALICE, email_verified_at=it.clock.now)
        assert await it.store.write(lambda tx: tx.users.change(proven))
        await with_passkey(it)
        (letter,) = [text for text in await told(it) if "A passkey was added" in text]
        assert "/account/security" in letter

    run(tmp_path, story, mail=MailSettings(host="mail.example"))
