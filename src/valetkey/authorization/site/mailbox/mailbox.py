"""/mailbox: the letters that a demo does not send. Served where the settings say so, else not."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.deeds.account.mailroom import Mailroom
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.letter import Mail
from valetkey.authorization.pages.mail.message import Paragraph, Written, write
from valetkey.authorization.site.page import nothing_there
from valetkey.authorization.site.site import Site
from valetkey.web.exchange import Refuse, Request, Response
from valetkey.web.router import Route


@dataclass(frozen=True, slots=True)
class ListedLetter:
    """A letter as a line of the list."""

    url: str
    to: str
    subject: str
    at: When


@dataclass(frozen=True, slots=True)
class MailboxPage:
    """Every letter of the last day, newest first."""

    template: ClassVar[str] = "mailbox/mailbox.html"

    letters: tuple[ListedLetter, ...]
    #: This page again, to see what has come since.
    mailbox_url: str


@dataclass(frozen=True, slots=True)
class LetterPage:
    """One letter, with links to follow."""

    template: ClassVar[str] = "mailbox/email.html"

    to: str
    subject: str
    paragraphs: tuple[Paragraph, ...]
    at: When
    mailbox_url: str


MAILBOX = "/mailbox"
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class MailboxEndpoint:
    """Letters, to be read by anybody: settings allow it on loopback only."""

    site: Site
    mailroom: Mailroom

    async def get(self, request: Request) -> Response:
        """All of them, newest first."""
        now = request.at
        mails = await self.site.store.read(lambda tx: tx.mails.kept(now, _SHOWN))
        letters = tuple(
            ListedLetter(
                f"{MAILBOX}/{mail.id}", found[0], found[1].subject, When(mail.created_at, now)
            )
            for mail in mails
            if (found := self._read(mail)) is not None
        )
        return self.site.page(request, MailboxPage(letters, MAILBOX))

    async def one(self, request: Request) -> Response:
        """One of them."""
        mail_id, now = request.arguments["id"], request.at
        mail = await self.site.store.read(lambda tx: tx.mails.find_kept(mail_id, now))
        found = None if mail is None else self._read(mail)
        if mail is None or found is None:
            raise nothing_there("letter")
        to, written = found
        when = When(mail.created_at, now)
        page = LetterPage(to, written.subject, written.paragraphs, when, MAILBOX)
        return self.site.page(request, page)

    def _read(self, mail: Mail) -> tuple[str, Written] | None:
        letter = self.mailroom.open(mail)
        return None if letter is None else (letter.to, write(letter, brand=self.site.brand))


def mailbox_of(mailroom: Mailroom) -> str:
    """Where letters are shown; "" where they are sent."""
    return MAILBOX if mailroom.settings.is_mailbox else ""


def mailbox_routes(site: Site, mailroom: Mailroom, refuse: Refuse) -> tuple[Route, ...]:
    """The mailbox, where there is one."""
    if not mailroom.settings.is_mailbox:
        return ()
    endpoint = MailboxEndpoint(site, mailroom)
    return (
        Route(MAILBOX, {"GET": endpoint.get, "HEAD": endpoint.get}, refuse),
        Route(f"{MAILBOX}/{{id}}", {"GET": endpoint.one, "HEAD": endpoint.one}, refuse),
    )
