"""Routes of the admin API: one for each path of the operations table, and its OpenAPI document."""

from collections.abc import Sequence

from valetkey.authorization.endpoints.admin_api.endpoint import OperationEndpoint
from valetkey.authorization.endpoints.admin_api.openapi import document
from valetkey.authorization.endpoints.admin_api.problem import Problems
from valetkey.authorization.operations.operation import PREFIX, Operation, Services
from valetkey.authorization.operations.table import OPERATIONS
from valetkey.authorization.site.admin.server.api import explained
from valetkey.authorization.site.presentation import Renderer
from valetkey.authorization.storage.decisions import DecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Endpoint, Request, Response, json_response
from valetkey.web.router import Body, Route

OPENAPI = f"{PREFIX}/openapi.json"
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_CACHED = (("cache-control", "public, max-age=300"),)


def routes(renderer: Renderer, services: Services, decisions: DecisionQueue) -> tuple[Route, ...]:
    """Return the routes. Other paths below the prefix are not found."""
    issuer = services.settings.authorization.url
    problems = Problems(issuer, decisions)
    described = json_response(document(issuer, services.settings.brand.name), headers=_CACHED)

    async def openapi(_: Request) -> Response:
        return described

    async def people(request: Request) -> Response:
        return renderer.page(request, explained(issuer))

    async def nothing(_: Request) -> Response:
        raise Refused(Refusal(ErrorCode.NOT_FOUND, "this page does not exist", "http.path"))

    paths: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, []).append(operation)
    return (
        Route(OPENAPI, {"GET": openapi, "HEAD": openapi}, problems.at(OPENAPI)),
        Route(f"{PREFIX}/", {"GET": people, "HEAD": people}, problems.at(f"{PREFIX}/")),
        *(_route(path, listed, services, problems) for path, listed in paths.items()),
        Route("/admin/api/{+rest}", dict.fromkeys(_METHODS, nothing), problems.at("/admin/api/")),
    )


def _route(
    path: str, operations: Sequence[Operation], services: Services, problems: Problems
) -> Route:
    methods: dict[str, Endpoint] = {
        each.method: OperationEndpoint(services, problems, each) for each in operations
    }
    return Route(f"{PREFIX}{path}", methods, problems.at(f"{PREFIX}{path}"), Body.JSON)
