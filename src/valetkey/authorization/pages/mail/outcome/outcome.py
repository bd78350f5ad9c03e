"""How it stands with a mailed link: look into your mail, it is done, it does not work any more."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Matter(StrEnum):
    """What a link is about."""

    SIGN_UP = "sign_up"
    INVITATION = "invitation"
    PASSWORD = "password"
    EMAIL_CHANGE = "email_change"
    EMAIL_VERIFY = "email_verify"
    EMAIL_UNDO = "email_undo"


@dataclass(frozen=True, slots=True)
class LookIntoMailPage:
    """The same for everybody, whether there is a letter or not."""

    template: ClassVar[str] = "mail/outcome/look_into_mail.html"

    matter: Matter
    #: What was typed: an address, or a name.
    typed: str
    #: The way to try again.
    again_url: str
    #: The way on, once the link was opened; "" for none.
    on_url: str = ""
    #: Where a demo shows its letters; "" where they are sent.
    mailbox_url: str = ""


@dataclass(frozen=True, slots=True)
class DeadLinkPage:
    """The link was used, is too old, or what it speaks of is not so any more."""

    template: ClassVar[str] = "mail/outcome/dead_link.html"

    matter: Matter
    #: Where to get another one.
    again_url: str
    #: The account could not be made: its name or address was given away meanwhile.
    taken: bool = False
