"""Letters that arrive, and one that does not."""

from email.message import EmailMessage

from valetkey.config.sections.mail import MailSettings

from tests.authorization.endpoints.world import ADA, Service
from valetkey.authorization.deeds.account.mailroom import Mailroom
from valetkey.authorization.model.account.letter import Letter, LetterKind
from valetkey.authorization.pages.looks.brand import Brand
from valetkey.authorization.upkeep.post import PostOffice
from valetkey.authorization.upkeep.smtp import Unsent
from valetkey.kernel.runtime import SYSTEM, Runtime

_SETTINGS = MailSettings(host="mail.example", from_address="no-reply@auth.example")


async def letters(it: Service) -> None:
    """The post takes one letter, and refuses another for good."""
    mailroom = Mailroom(_SETTINGS, it.foundation.keyring, SYSTEM.random)
    answers = [None, Unsent("recipient 550", for_good=True)]

    async def send(message: EmailMessage) -> None:
        if failure := answers.pop():
            raise failure

    runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
    office = PostOffice(it.foundation.store, mailroom, send, Brand, runtime)
    letter = Letter(LetterKind.TEST, "ada@example.com", "en", uid=ADA)
    for _ in "12":
        await it.write(lambda tx: mailroom.post(tx, letter, it.clock.now))
    await office.deliver_some()
