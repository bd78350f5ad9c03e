"""The forms of visitors who need not be signed in: sent from a page of ours, to this browser."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.authentication.browsers import Browsers
from valetkey.web.exchange import Pairs, Request
from valetkey.web.form import Form, read_form, read_query


class Matter(StrEnum):
    """What a link is about."""

    SIGN_UP = "sign_up"
    INVITATION = "invitation"
    PASSWORD = "password"
    EMAIL_CHANGE = "email_change"
    EMAIL_VERIFY = "email_verify"
    EMAIL_UNDO = "email_undo"


@dataclass(frozen=True, slots=True)
class CheckEmailPage:
    """The same for everybody, whether there is an email or not."""

    template: ClassVar[str] = "emailed_link/check_email.html"

    matter: Matter
    #: What was typed: an address, or a name.
    typed: str
    #: The way to try again.
    again_url: str
    #: The way on, once the link was opened; "" for none.
    on_url: str = ""
    #: Where a demo shows its emails; "" where they are sent.
    mailbox_url: str = ""


@dataclass(frozen=True, slots=True)
class DeadLinkPage:
    """The link was used, is too old, or what it speaks of is not so any more."""

    template: ClassVar[str] = "emailed_link/dead_link.html"

    matter: Matter
    #: Where to get another one.
    again_url: str
    #: The account could not be made: its name or address was given away meanwhile.
    taken: bool = False


TOO_MANY = 429
BAD_REQUEST = 400
GONE = 410


@dataclass(frozen=True, slots=True)
class Shown:
    """A form about to be shown: its token, and the headers of the answer."""

    csrf: str
    headers: Pairs

    def waits(self, seconds: int) -> Pairs:
        """The headers where somebody must wait."""
        return (*self.headers, ("retry-after", str(seconds))) if seconds else self.headers


def shown(browsers: Browsers, request: Request, purpose: str, about: str = "") -> Shown:
    """For a page with a form."""
    browser, headers = browsers.browser(request)
    return Shown(browsers.csrf(browser, purpose, about), headers)


def read(
    browsers: Browsers,
    request: Request,
    purpose: str,
    about: str = "",
    opaque: Collection[str] = (),
) -> Form:
    """What the form says. Refused (forbidden) for one that is not ours."""
    browsers.check_origin(request)
    form = read_form(request.body, opaque=opaque)
    browser = browsers.cookies.browser(request)
    browsers.check_form(request, form, browser, purpose, about)
    return form


def link_in(request: Request) -> str:
    """The link in the address of a page."""
    return read_query(request.query).get("link") or ""


def browser_print(browsers: Browsers, request: Request) -> str:
    """What is kept of the browser; "" for one without a cookie."""
    return browsers.cookies.browser_print(browsers.cookies.browser(request)) or ""
