"""GET /errors/<code> and /errors/: what each error code means, for anyone."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.developer.failures import plain_reference
from valetkey.authorization.layout.brand_book import BrandBook
from valetkey.authorization.layout.render import PageContext, content_security_policy, render
from valetkey.authorization.layout.viewer import UNNAMED, Configuration, spoken, viewer_of
from valetkey.authorization.site.errors.text import ErrorText
from valetkey.authorization.site.errors.texts import TEXTS
from valetkey.kernel.refusal import STATUS, ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, html_response
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class QueryStringPage:
    """Say why a secret does not belong in a URL, and how to move it. Paths are examples."""

    template: ClassVar[str] = "errors/query_string.html"

    token_url: str


@dataclass(frozen=True, slots=True)
class ErrorExplanationPage:
    """Explain one code to anyone."""

    template: ClassVar[str] = "errors/explanation.html"

    code: ErrorCode
    #: The HTTP status that goes with it where the answer is not a redirect.
    status: int
    text: ErrorText
    #: The reference of one refusal, "" for none.
    reference: str = ""


@dataclass(frozen=True, slots=True)
class ErrorIndexPage:
    """List all codes, each with its one-line meaning."""

    template: ClassVar[str] = "errors/index.html"

    texts: tuple[tuple[ErrorCode, ErrorText], ...]


def explanation_of(code: str, reference: str = "") -> ErrorExplanationPage | None:
    """The page for a code as it is spelled in an address; None for one that is not ours."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return None
    return ErrorExplanationPage(known, STATUS[known], TEXTS[known], reference)


def error_index() -> ErrorIndexPage:
    """The page that lists them all."""
    return ErrorIndexPage(tuple((code, TEXTS[code]) for code in ErrorCode))


@dataclass(frozen=True, slots=True)
class ErrorPages:
    """The explanations that `error_uri` leads to."""

    brands: BrandBook
    issuer: str
    configuration: Configuration = UNNAMED

    async def index(self, request: Request) -> Response:
        """All codes, each with its meaning."""
        return self._page(request, error_index())

    async def explanation(self, request: Request) -> Response:
        """One code. With the reference of a refusal, it leads to what exactly was wrong."""
        given = read_query(request.query).get("reference") or ""
        page = explanation_of(request.arguments["code"], plain_reference(given))
        if page is None:
            raise Refused(
                Refusal(ErrorCode.NOT_FOUND, "there is no error of that name", "errors.code")
            )
        return self._page(request, page)

    async def query_string(self, request: Request) -> Response:
        """Why secrets do not belong in a URL: where the Deprecation notice leads."""
        return self._page(request, QueryStringPage(f"{self.issuer}/oauth/token"))

    def _page(self, request: Request, page: PageContext) -> Response:
        brand = self.brands.current
        policy = content_security_policy()
        viewer = viewer_of(request, languages=brand.languages, configuration=self.configuration)
        body = render(page, brand=brand, viewer=viewer)
        return html_response(body, 200, policy, spoken(viewer))
