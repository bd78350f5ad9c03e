"""The forms of visitors who need not be signed in: sent from a page of ours, to this browser."""

from collections.abc import Collection
from dataclasses import dataclass

from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.web.exchange import Pairs, Request
from valetkey.web.form import Form, read_form, read_query

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


def shown(site: Site, request: Request, purpose: str, about: str = "") -> Shown:
    """For a page with a form."""
    browser, headers = site.browser(request)
    return Shown(site.csrf(browser, purpose, about), headers)


def read(
    site: Site, request: Request, purpose: str, about: str = "", opaque: Collection[str] = ()
) -> Form:
    """What the form says. Refused (forbidden) for one that is not ours."""
    site.check_origin(request)
    form = read_form(request.body, opaque=opaque)
    browser = site.cookies.browser(request)
    site.check_form(request, form, browser, purpose, about)
    return form


def link_in(request: Request) -> str:
    """The link in the address of a page."""
    return read_query(request.query).get("link") or ""


def browser_print(site: Site, request: Request) -> str:
    """What is kept of the browser; "" for one without a cookie."""
    return site.cookies.browser_print(site.cookies.browser(request)) or ""
