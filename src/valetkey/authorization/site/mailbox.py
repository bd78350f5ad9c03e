"""/mailbox: the emails of a demo, shown instead of sent if the settings enable it."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.email.message import Paragraph, RenderedEmail, write
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.language import ENGLISH
from valetkey.authorization.model.email import QueuedEmail
from valetkey.authorization.site.page import (
    AnyPage,
    Outcome,
    Page,
    Show,
    VisitorRequest,
    anyone,
    not_found,
)
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.text import translatable


class ListedEmail(Struct, frozen=True):
    """An email in the list."""

    url: str
    to: str
    subject: str
    at: When
    #: The tag of the language that it is written in.
    language: str = ENGLISH.tag


class MailboxPage(Struct, frozen=True):
    """The emails of the last day, newest first."""

    template: ClassVar[str] = "mailbox/mailbox.html"
    title: ClassVar[str] = translatable("Mailbox")

    emails: tuple[ListedEmail, ...]
    #: The URL of this page, to reload it.
    mailbox_url: str


class MailboxEmailPage(Struct, frozen=True):
    """The context of the page of one email."""

    template: ClassVar[str] = "mailbox/email.html"

    to: str
    subject: str
    paragraphs: tuple[Paragraph, ...]
    at: When
    mailbox_url: str
    language: str = ENGLISH.tag


MAILBOX = "/mailbox"
_SHOWN = 100


class Mailbox(Struct, frozen=True):
    """Show emails without sign-in; the settings allow it on loopback only."""

    store: Store
    brands: CurrentBrand
    outbox: MailOutbox

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of the mailbox, none if email is sent."""
        if not self.outbox.settings.is_mailbox:
            return ()
        return (
            Page(MAILBOX, anyone, self.show),
            Page(f"{MAILBOX}/{{id}}", anyone, self.show_email),
        )

    async def show(self, request: VisitorRequest) -> Outcome:
        """Show the emails, newest first."""
        now = request.now
        mails = await self.store.read(lambda tx: tx.mails.for_mailbox(now, _SHOWN))
        emails = tuple(
            ListedEmail(
                f"{MAILBOX}/{mail.id}",
                email[0],
                email[1].subject,
                When(mail.created_at, now),
                email[1].language.tag,
            )
            for mail in mails
            if (email := self._read(mail)) is not None
        )
        return Show(MailboxPage(emails, MAILBOX))

    async def show_email(self, request: VisitorRequest) -> Outcome:
        """Show one email."""
        mail_id, now = request.arguments["id"], request.now
        mail = await self.store.read(lambda tx: tx.mails.find_kept(mail_id, now))
        email = None if mail is None else self._read(mail)
        if mail is None or email is None:
            raise not_found("email")
        to, written = email
        when = When(mail.created_at, now)
        language = written.language.tag
        return Show(
            MailboxEmailPage(to, written.subject, written.paragraphs, when, MAILBOX, language)
        )

    def _read(self, mail: QueuedEmail) -> tuple[str, RenderedEmail] | None:
        email = self.outbox.open(mail)
        return None if email is None else (email.to, write(email, brand=self.brands.current))


def mailbox_of(outbox: MailOutbox) -> str:
    """Return the path of the mailbox; "" where emails are sent."""
    return MAILBOX if outbox.settings.is_mailbox else ""
