"""Error pages: what is wrong, who can fix it, and a reference."""

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.inspection.refusals import plain_reference
from valetkey.authorization.email.notices import FORGOTTEN, SIGN_UP
from valetkey.authorization.endpoints.authorize.pending import sealed_in
from valetkey.authorization.endpoints.client.request import ClientRefusal
from valetkey.authorization.layout.addresses import (
    ADDRESSES,
    AUTHORIZE,
    CONSENT,
    DEVICE,
    HOME,
    SECOND_FACTOR,
    SIGN_IN,
    SWITCH_ACCOUNT,
)
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.layout.viewer import content_language, viewer_of
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show, VisitorRequest, anyone
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Request, Response, html_response
from valetkey.web.paths import WRONG_HOST
from valetkey.web.router import NO_ROUTE


class RemedyAudience(StrEnum):
    """The audience of a remedy."""

    VISITOR = "visitor"
    DEVELOPER = "developer"
    OPERATOR = "operator"


class Remedy(Struct, frozen=True):
    """The remedy for an error, in one or two sentences for one kind of reader."""

    reader: RemedyAudience
    advice: str
    #: The command that helps, without `valetkey`; "" for none.
    command: str = ""


class Example(Struct, frozen=True):
    """A request, response or command to compare with; `code` is not translated."""

    caption: str
    code: str


class ErrorText(Struct, frozen=True):
    """The explanation of an error code. Its sentences are message ids of the catalogue."""

    #: One sentence, shown in the list of all codes.
    meaning: str
    causes: tuple[str, ...]
    #: The reader who usually has to act comes first.
    remedies: tuple[Remedy, ...]
    example: Example
    #: Where the code is defined: "RFC 6749, section 5.2".
    specification: str
    #: The URL of that section; "" for an RFC, whose URL follows from its number.
    defined_at: str = ""

    @property
    def specification_url(self) -> str:
        """The URL of the section that defines the code."""
        if self.defined_at:
            return self.defined_at
        number, _, section = self.specification.removeprefix("RFC ").partition(", section ")
        return f"https://www.rfc-editor.org/rfc/rfc{number}.html#section-{section}"


def _read() -> Mapping[ErrorCode, ErrorText]:
    text = (
        files("valetkey.authorization.site.errors")
        .joinpath("errors.toml")
        .read_text(encoding="utf-8")
    )
    return MappingProxyType(msgspec.convert(tomllib.loads(text), dict[ErrorCode, ErrorText]))


TEXTS: Mapping[ErrorCode, ErrorText] = _read()
"""The text of each code."""


class ProblemPage(Struct, frozen=True):
    """An error page for the user, with details for those who can fix it.

    `sentence` names the invalid parameter ("redirect_uri is not registered for this client") and
    contains nothing from the request; it is "" if the heading is sufficient.
    """

    template: ClassVar[str] = "errors/problem.html"

    code: ErrorCode
    sentence: str
    reader: RemedyAudience
    #: "VK-7F3K-9QXM-2RTD": what `valetkey explain` takes; empty when no record was kept.
    reference: str = ""
    #: An app's request was refused, and its team can read the record.
    of_app: bool = False
    #: The Host for which this server does not answer; it answers for that of `issuer`.
    wrong_host: str = ""
    issuer: str = ""
    #: Where the visitor can go on; "" for nowhere.
    on_url: str = ""
    #: Seconds until another attempt is looked at; 0 for none.
    wait: int = 0


# Only paths of this server are recorded; any other could contain secrets.
_OURS = re.compile(r"(?:/[a-z-]{1,20}){1,3}/?")
_OWN_PAGES = ("/account", "/admin", "/developer", "/language", "/mailbox")
_PAGES = ("/account", "/developer", "/admin", "/errors", "/notices")
_OF_INTERACTIONS = (SIGN_IN, SIGN_UP, SECOND_FACTOR, CONSENT, SWITCH_ACCOUNT)
_FORMS = (FORGOTTEN, DEVICE)
_BY_VISITOR = ("interaction.", "csrf.", "consent.")


def is_page(path: str) -> bool:
    """Return whether people read this path: it belongs to no protocol endpoint and no API."""
    return path == "/" or (path.startswith(_PAGES) and not path.startswith("/admin/api"))


class RefuseWithPage(Struct, frozen=True):
    """Refuse with a page, for routes that people visit. `keeps_path` is as in ClientRefusal."""

    decisions: ClientDecisionQueue
    brands: CurrentBrand
    issuer: str
    keeps_path: bool = True

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """Return the problem page, with a reference to the record of the failed check."""
        endpoint = request.path if self.keeps_path and _OURS.fullmatch(request.path) else ""
        reference = self.decisions.enqueue(refusal, endpoint=endpoint, at=request.at)
        page = ProblemPage(
            refusal.code,
            "" if refusal.check == NO_ROUTE else refusal.text,
            _reader(request, refusal),
            reference,
            bool(refusal.about),
            wrong_host=refusal.received if refusal.check == WRONG_HOST else "",
            issuer=self.issuer,
            on_url=_way_on(request, refusal),
            wait=refusal.retry_after if refusal.code is ErrorCode.SLOW_DOWN else 0,
        )
        brand = self.brands.current
        policy = content_security_policy()
        # The URL of the error page is not a return target, and an attacker may have written it.
        viewer = replace(viewer_of(request, languages=brand.languages), here="/")
        body = render(page, brand=brand, viewer=viewer)
        return html_response(body, refusal.code.status, policy, content_language(viewer))


def _way_on(request: Request, refusal: Refusal) -> str:
    """Return where a visitor goes on whose page has expired, was used or is another browser's."""
    if refusal.leads_to or not refusal.check.startswith(_BY_VISITOR):
        return refusal.leads_to
    if refusal.check.startswith("csrf.") and request.path in _OF_INTERACTIONS:
        # Their query was read before the form was checked. The endpoint decides about the page.
        sealed = quote(sealed_in(request), safe="")
        return f"{AUTHORIZE}?interaction={sealed}" if sealed else request.path
    return request.path if request.path in _FORMS else HOME


class RefuseUnknownPath(Struct, frozen=True):
    """Refuse unknown paths: with a page for people, with JSON for programs."""

    page: RefuseWithPage
    programs: ClientRefusal

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """Return the error page if the Accept header includes HTML, otherwise JSON."""
        if request.method in {"GET", "HEAD"} and "text/html" in (
            request.headers.get("accept") or ""
        ):
            return self.page(request, refusal)
        return self.programs(request, refusal)


def _reader(request: Request, refusal: Refusal) -> RemedyAudience:
    by_code = refusal.code in {ErrorCode.NOT_FOUND, ErrorCode.SLOW_DOWN}
    if by_code or refusal.check.startswith(_BY_VISITOR):
        return RemedyAudience.VISITOR
    reader = TEXTS[refusal.code].remedies[0].reader
    # Apps do not redirect users to these pages.
    no_app = reader is RemedyAudience.DEVELOPER and request.path.startswith(_OWN_PAGES)
    return RemedyAudience.VISITOR if no_app else reader


class QueryStringPage(Struct, frozen=True):
    """Explain why a secret does not belong in a URL, and how to move it. Paths are examples."""

    template: ClassVar[str] = "errors/query_string.html"
    title: ClassVar[str] = translatable("Secrets in the query string")

    token_url: str


class ErrorExplanationPage(Struct, frozen=True):
    """Explain one code to anyone."""

    template: ClassVar[str] = "errors/explanation.html"

    code: ErrorCode
    #: The HTTP status of the response, unless that is a redirect.
    status: int
    text: ErrorText
    #: The reference of one refusal, "" for none.
    reference: str = ""


class ErrorIndexPage(Struct, frozen=True):
    """List all codes, each with its one-line meaning."""

    template: ClassVar[str] = "errors/index.html"
    title: ClassVar[str] = translatable("Error codes")

    texts: tuple[tuple[ErrorCode, ErrorText], ...]


def explanation_of(code: str, reference: str = "") -> ErrorExplanationPage | None:
    """Return the page of an error code in a URL; None for an unknown one."""
    try:
        error_code = ErrorCode(code)
    except ValueError:
        return None
    return ErrorExplanationPage(error_code, error_code.status, TEXTS[error_code], reference)


def error_index() -> ErrorIndexPage:
    """Return the page that lists all error codes."""
    return ErrorIndexPage(tuple((code, TEXTS[code]) for code in ErrorCode))


class ErrorPages(Struct, frozen=True):
    """The pages that `error_uri` and the Deprecation notice link to."""

    issuer: str

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        return (
            Page(ADDRESSES["errors"], anyone, self.index),
            Page(f"{ADDRESSES['errors']}{{code}}", anyone, self.explanation),
            Page(ADDRESSES["query_notice"], anyone, self.query_string),
        )

    async def index(self, request: VisitorRequest) -> Outcome:
        """List all error codes with their meaning."""
        return Show(error_index())

    async def explanation(self, request: VisitorRequest) -> Outcome:
        """Explain one code. With the reference of a refusal, link to its details."""
        reference = request.query.get("reference") or ""
        page = explanation_of(request.arguments["code"], plain_reference(reference))
        if page is None:
            raise Refused.because(
                ErrorCode.NOT_FOUND, "this error code does not exist", "errors.code"
            )
        return Show(page)

    async def query_string(self, request: VisitorRequest) -> Outcome:
        """Explain why secrets do not belong in a URL; the Deprecation notice links here."""
        return Show(QueryStringPage(f"{self.issuer}/oauth/token"))
