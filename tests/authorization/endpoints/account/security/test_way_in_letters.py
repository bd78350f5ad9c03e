"""Who adds a way in to an account is told of by letter to its person, whoever it was."""

from tests.authorization.endpoints.account.security.factors import with_app, with_passkey
from tests.authorization.endpoints.visitor.world import ALICE, World, run
from valetkey.authorization.email.message import write
from valetkey.authorization.layout.brand import Brand
from valetkey.config.sections.mail import MailSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


async def told(it: World) -> list[str]:
    """What the letters that wait say."""
    until = Instant(it.clock.now + 60)
    mails = await it.store.write(lambda tx: tx.mails.lease(it.clock.now, until, 10))
    letters = [it.outbox.open(mail) for mail in mails]
    return [write(each, brand=Brand("Acme")).text for each in letters if each is not None]


def test_mf_05_a_letter_tells_of_each_passkey_and_each_authenticator_app(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        proven = replace(ALICE, email_verified_at=it.clock.now)
        assert await it.store.write(lambda tx: tx.users.change(proven))
        await with_app(it)
        assert any("An authenticator app was added" in each for each in await told(it))

    run(sqlite_url, story, mail=MailSettings(host="mail.example"))


def test_mf_05_a_letter_tells_of_a_passkey(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        proven = replace(ALICE, email_verified_at=it.clock.now)
        assert await it.store.write(lambda tx: tx.users.change(proven))
        await with_passkey(it)
        (letter,) = [each for each in await told(it) if "A passkey was added" in each]
        assert "/account/security" in letter

    run(sqlite_url, story, mail=MailSettings(host="mail.example"))
