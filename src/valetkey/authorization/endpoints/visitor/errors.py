"""GET /errors/<code> and /errors/: what each error code means, for anyone."""

from dataclasses import dataclass

from valetkey.authorization.deeds.developer.failures import plain_reference
from valetkey.authorization.layout.brand_book import BrandBook
from valetkey.authorization.layout.render import PageContext, content_security_policy, render
from valetkey.authorization.layout.viewer import UNNAMED, Configuration, spoken, viewer_of
from valetkey.authorization.pages.errors.explanation import error_index, explanation_of
from valetkey.authorization.pages.notices.query_string import QueryStringPage
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, html_response
from valetkey.web.form import read_query


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
