"""Error pages: what is wrong, who can fix it, and a reference."""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from valetkey.authorization.endpoints.client.answer import ClientRefusal
from valetkey.authorization.layout.current_brand import CurrentBrand
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.layout.viewer import content_language, viewer_of
from valetkey.authorization.site.errors.texts import TEXTS, Reader
from valetkey.authorization.storage.decisions import DecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.elsewhere import WRONG_HOST
from valetkey.web.exchange import Request, Response, html_response
from valetkey.web.router import NO_ROUTE


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """An error page for the user, with details for whoever can fix it.

    `sentence` names the invalid parameter ("redirect_uri is not registered for this client") and
    contains nothing from the request; it is "" if the heading is sufficient.
    """

    template: ClassVar[str] = "errors/problem.html"

    code: ErrorCode
    sentence: str
    reader: Reader
    #: "VK-7F3K-9QXM-2RTD": what `valetkey explain` takes; empty when no record was kept.
    reference: str = ""
    #: An app's request was refused, and its team can read the record.
    of_app: bool = False
    #: The Host for which this server does not answer; it answers for that of `issuer`.
    wrong_host: str = ""
    issuer: str = ""


# Addresses that look like ours may be written down; any other could hold what is nobody's business.
_OURS = re.compile(r"(?:/[a-z-]{1,20}){1,3}/?")
_OWN_PAGES = ("/account", "/admin", "/developer", "/language", "/mailbox")
_PAGES = ("/account", "/developer", "/admin", "/errors", "/notices")
_BY_VISITOR = ("interaction.", "csrf.", "consent.")


def is_page(path: str) -> bool:
    """Whether people read what is at this path: no endpoint of a protocol, and no API."""
    return path == "/" or (path.startswith(_PAGES) and not path.startswith("/admin/api"))


@dataclass(frozen=True, slots=True)
class RefuseWithPage:
    """Refuse for routes that people visit. `keeps_path` is as in ClientRefusal."""

    decisions: DecisionQueue
    brands: CurrentBrand
    issuer: str
    keeps_path: bool = True

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """The problem page, with a reference to the record of what exactly was wrong."""
        endpoint = request.path if self.keeps_path and _OURS.fullmatch(request.path) else ""
        reference = self.decisions.put(refusal, endpoint=endpoint, at=request.at)
        page = ProblemPage(
            refusal.code,
            "" if refusal.check == NO_ROUTE else refusal.description,
            _reader(request, refusal),
            reference,
            bool(refusal.about),
            wrong_host=refusal.received if refusal.check == WRONG_HOST else "",
            issuer=self.issuer,
        )
        brand = self.brands.current
        policy = content_security_policy()
        # Its own address is no place to come back to, and may hold what somebody else wrote.
        viewer = replace(viewer_of(request, languages=brand.languages), here="/")
        body = render(page, brand=brand, viewer=viewer)
        return html_response(body, refusal.code.status, policy, content_language(viewer))


@dataclass(frozen=True, slots=True)
class RefuseUnknownPath:
    """Refuse for addresses that no route has: a page for people, JSON for programs."""

    page: RefuseWithPage
    programs: ClientRefusal

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """Return the error page for browsers: the Accept header includes HTML."""
        if request.method == "GET" and "text/html" in (request.headers.get("accept") or ""):
            return self.page(request, refusal)
        return self.programs(request, refusal)


def _reader(request: Request, refusal: Refusal) -> Reader:
    if refusal.code is ErrorCode.NOT_FOUND or refusal.check.startswith(_BY_VISITOR):
        return Reader.VISITOR
    reader = TEXTS[refusal.code].remedies[0].reader
    # No app sends people to our own pages.
    no_app = reader is Reader.DEVELOPER and request.path.startswith(_OWN_PAGES)
    return Reader.VISITOR if no_app else reader
