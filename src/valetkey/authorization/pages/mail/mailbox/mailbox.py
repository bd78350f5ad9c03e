"""The mailbox of a demo: letters that are shown here because nobody sends them."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.mail.message import Paragraph


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

    template: ClassVar[str] = "mail/mailbox/mailbox.html"

    letters: tuple[ListedLetter, ...]
    #: This page again, to see what has come since.
    mailbox_url: str


@dataclass(frozen=True, slots=True)
class LetterPage:
    """One letter, with links to follow."""

    template: ClassVar[str] = "mail/mailbox/letter.html"

    to: str
    subject: str
    paragraphs: tuple[Paragraph, ...]
    at: When
    mailbox_url: str
