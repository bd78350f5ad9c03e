"""Pages shared by all emailed links: check your email, and the link is invalid."""

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.site.page import VisitorRequest
from valetkey.kernel.text import translatable


class LinkSubject(StrEnum):
    """The purposes of emailed links."""

    SIGN_UP = "sign_up"
    INVITATION = "invitation"
    PASSWORD = "password"
    EMAIL_CHANGE = "email_change"
    EMAIL_VERIFY = "email_verify"
    EMAIL_UNDO = "email_undo"


class Resend(Struct, frozen=True):
    """The form that sends the email again: posts `csrf`, `again` and the field `name`.

    It is `done` on the page that answers it, in the same words whether or not one was sent.
    """

    action: str
    name: str
    value: str
    done: bool = False


class CheckEmailPage(Struct, frozen=True):
    """Tell the user to check their email; shown whether or not one was sent."""

    template: ClassVar[str] = "emailed_link/check_email.html"
    title: ClassVar[str] = translatable("Check your email")

    matter: LinkSubject
    #: The submitted text: an address, or a name.
    typed: str
    #: The page to try again.
    again_url: str
    resend: Resend
    #: The next page, once the link was opened; "" for none.
    on_url: str = ""
    #: The mailbox of a demo; "" if emails are sent.
    mailbox_url: str = ""


class InvalidLinkPage(Struct, frozen=True):
    """The link was used, has expired, or no longer applies."""

    template: ClassVar[str] = "emailed_link/dead_link.html"
    title: ClassVar[str] = translatable("This link is no longer valid")

    matter: LinkSubject
    #: The page to get another link.
    again_url: str
    #: Whether the account could not be created: its name or address was taken meanwhile.
    taken: bool = False


TOO_MANY = 429
BAD_REQUEST = 400
GONE = 410


def link_in(request: VisitorRequest) -> str:
    """Return the link's secret from the URL of a page."""
    return request.query.get("link") or ""
