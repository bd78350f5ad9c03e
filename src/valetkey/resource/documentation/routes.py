"""The two documentation routes, public because they contain no user data."""

from collections.abc import Sequence

from valetkey.resource.documentation.openapi import ApiIdentity, document
from valetkey.resource.documentation.page import OPENAPI, page
from valetkey.resource.problem import Problems
from valetkey.resource.resource_object import ResourceObject
from valetkey.web.exchange import Endpoint, Request, Response, json_response
from valetkey.web.router import Route

PAGE = "/v2/"

_CACHED = (("cache-control", "public, max-age=300"),)


def routes(
    site: ApiIdentity, objects: Sequence[ResourceObject], problems: Problems
) -> tuple[Route, Route]:
    """Return the page and the document, each built once."""
    described = json_response(document(site, objects), headers=_CACHED)
    shown = page(site, objects)

    async def openapi(request: Request) -> Response:
        return problems.cors.opened(request, described)

    async def people(_: Request) -> Response:
        return shown

    def route(path: str, endpoint: Endpoint) -> Route:
        methods = {"GET": endpoint, "HEAD": endpoint}
        return Route(path, methods, problems.refuse_at(path))

    return route(PAGE, people), route(OPENAPI, openapi)
