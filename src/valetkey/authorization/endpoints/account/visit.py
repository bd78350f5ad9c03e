"""A visit to the account area: whose it is, and forms that only this person can have sent."""

from collections.abc import Collection
from dataclasses import dataclass

from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.sign_in.session import SignedIn
from valetkey.authorization.site.site import SIGN_IN, Site
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Pairs, Request, Response
from valetkey.web.form import Form, read_form

PURPOSE = "account"
"""The purpose of the forms' token."""

_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Visit:
    """Who looks, the token of every form shown to them, and the headers of the answer."""

    signed_in: SignedIn
    csrf: str
    headers: Pairs


async def visit(site: Site, request: Request) -> Visit | Response:
    """The visit, or where nobody is signed in, the way to the sign-in page."""
    signed_in = await site.signed_in(request)
    if signed_in is None:
        # What a form wanted to do is not done later; what somebody wanted to see is shown.
        to = safe_return_path(request.path) if request.method in _READS else ""
        return site.goes_to(f"{SIGN_IN}?to={to}" if to else SIGN_IN)
    browser, headers = site.browser(request)
    return Visit(signed_in, site.csrf(browser, PURPOSE, signed_in.session.id), headers)


async def posted(
    site: Site, request: Request, opaque: Collection[str] = (), multiple: Collection[str] = ()
) -> tuple[Visit, Form] | Response:
    """The visit and what its form says; Refused (forbidden) for a form that is not ours."""
    site.check_origin(request)
    form = read_form(request.body, opaque=opaque, multiple=multiple)
    found = await visit(site, request)
    if isinstance(found, Response):
        return found
    browser = site.cookies.browser(request)
    site.check_form(request, form, browser, PURPOSE, found.signed_in.session.id)
    return found, form


def nothing_there(what: str) -> Refused:
    """For what is not there, and in the same words for what is another's."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, f"there is no such {what}", f"account.{what}"))
