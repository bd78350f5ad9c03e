"""How the pages say no: a page that says what is wrong, who can mend it, and a reference."""

import re
from dataclasses import dataclass, replace

from valetkey.authorization.endpoints.client.answer import ClientRefusal
from valetkey.authorization.endpoints.visitor.viewer import spoken, viewer_of
from valetkey.authorization.pages.errors.problem import Mender, ProblemPage
from valetkey.authorization.pages.errors.texts import TEXTS
from valetkey.authorization.pages.looks.themes.brand_book import BrandBook
from valetkey.authorization.pages.page import content_security_policy, render
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.kernel.refusal import STATUS, ErrorCode, Refusal
from valetkey.web.exchange import Request, Response, html_response

# Addresses that look like ours may be written down; any other could hold what is nobody's business.
_OURS = re.compile(r"(?:/[a-z-]{1,20}){1,3}/?")
_OWN_PAGES = ("/account", "/admin", "/developer", "/language", "/mailbox")
_BY_VISITOR = ("interaction.", "csrf.", "consent.")


@dataclass(frozen=True, slots=True)
class RefuseWithPage:
    """Refuse for routes that people visit. `keeps_path` is as in ClientRefusal."""

    decisions: DecisionQueue
    brands: BrandBook
    keeps_path: bool = True

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """The problem page, with a reference to the record of what exactly was wrong."""
        endpoint = request.path if self.keeps_path and _OURS.fullmatch(request.path) else ""
        reference = self.decisions.put(refusal, endpoint=endpoint, at=request.at)
        mender, of_app = _mender(request, refusal), bool(refusal.about)
        page = ProblemPage(refusal.code, refusal.description, mender, reference, of_app)
        brand = self.brands.current
        policy = content_security_policy(brand=brand)
        # Its own address is no place to come back to, and may hold what somebody else wrote.
        viewer = replace(viewer_of(request, languages=brand.languages), here="/")
        body = render(page, brand=brand, viewer=viewer)
        return html_response(body, STATUS[refusal.code], policy, spoken(viewer))


@dataclass(frozen=True, slots=True)
class RefuseWhereNobodyAnswers:
    """Refuse for addresses that no route has: a page for people, JSON for programs."""

    page: RefuseWithPage
    programs: ClientRefusal

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """The page for who asks with a browser: it says of itself that it reads HTML."""
        if request.method == "GET" and "text/html" in (request.headers.get("accept") or ""):
            return self.page(request, refusal)
        return self.programs(request, refusal)


def _mender(request: Request, refusal: Refusal) -> Mender:
    if refusal.code is ErrorCode.NOT_FOUND or refusal.check.startswith(_BY_VISITOR):
        return Mender.VISITOR
    mender = TEXTS[refusal.code].remedies[0].mender
    # No app sends people to our own pages.
    no_app = mender is Mender.DEVELOPER and request.path.startswith(_OWN_PAGES)
    return Mender.VISITOR if no_app else mender
