"""The address of an account, and the pages of the links that are sent to it."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class EmailPage:
    """Show the address, and ask for another one.

    Posts `csrf`, and `email` to change it or `verify` to have it proven.
    """

    template: ClassVar[str] = "mail/email/email.html"

    action: str
    csrf: str
    address_now: str
    verified: bool
    #: Whether letters can be sent at all.
    sends_mail: bool
    typed: str = ""
    #: "wrong", "same" or "held"; "" for nothing.
    fault: str = ""
    wait: int = 0
    #: Where a link was just sent; "" for nowhere.
    sent_to: str = ""


@dataclass(frozen=True, slots=True)
class EmailLinkPage:
    """What a link would do, with the button that does it. Posts `csrf` and `link`.

    `what` is "change", "verify" or "undo".
    """

    template: ClassVar[str] = "mail/email/link.html"

    action: str
    csrf: str
    link: str
    what: str
    username: str
    email: str


@dataclass(frozen=True, slots=True)
class EmailDonePage:
    """The address is theirs."""

    template: ClassVar[str] = "mail/email/done.html"

    email: str
    on_url: str
