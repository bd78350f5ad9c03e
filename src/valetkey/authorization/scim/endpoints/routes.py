"""The routes of SCIM below /scim/v2: authenticate the token, limit the rate, answer."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from valetkey.authorization.operations.operation import Services
from valetkey.authorization.scim.endpoints import resources
from valetkey.authorization.scim.endpoints.groups import Groups
from valetkey.authorization.scim.endpoints.message import (
    NO_TOKEN,
    PAGE,
    Answer,
    Caller,
    ScimErrors,
    ScimRequest,
    listed,
    query_of,
    read_search,
    read_view,
    search_of,
)
from valetkey.authorization.scim.endpoints.resources import Kind
from valetkey.authorization.scim.endpoints.schema import CORE, GROUP, Resource, user_schema
from valetkey.authorization.scim.endpoints.users import Users, not_found
from valetkey.authorization.scim.operations import Provisioner, authenticate
from valetkey.authorization.scim.settings import ScimSettings
from valetkey.authorization.scim.storage import ScimCredentials
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.moment import minutes
from valetkey.kernel.preconditions import preconditions
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.web.body import read_json
from valetkey.web.client_address import Buckets
from valetkey.web.exchange import Endpoint, Request, Response
from valetkey.web.paths import Paths
from valetkey.web.router import Body, Route

PREFIX = "/scim/v2"
_BASES = ("/scim", "/SCIM", "/Scim")
_VERSIONS = frozenset({"v2", "v2.0"})
_NOTED_EVERY = 60
_LEFT_OUT = ("Me", ".search")
"""Endpoints of RFC 7644 that this server does not implement."""

_Work = Callable[[Request, Caller], Awaitable[Answer]]


def routes(services: Services, decisions: ClientDecisionQueue) -> tuple[Route, ...]:
    """Return the routes; none unless SCIM is enabled."""
    settings = services.settings.section(ScimSettings)
    if not settings.enabled:
        return ()
    refuse = ScimErrors(decisions)
    scim = _Scim(services, Buckets(settings.requests_per_minute, minutes(1)))
    scim_routes = [
        Route(f"{PREFIX}/Bulk", {"POST": scim.at(scim.bulk)}, refuse, Body.JSON),
        *(
            Route(f"{PREFIX}/{path}", {"GET": scim.at(work)}, refuse)
            for path, work in scim.descriptions().items()
        ),
    ]
    for plural in ("Users", "Groups"):
        path = f"{PREFIX}/{plural}"
        one: dict[str, Endpoint] = {
            method: scim.at(scim.one(plural, method))
            for method in ("GET", "PUT", "PATCH", "DELETE")
        }
        several = {"GET": scim.at(scim.search(plural)), "POST": scim.at(scim.one(plural, "POST"))}
        scim_routes += [
            Route(path, several, refuse, Body.JSON),
            Route(f"{path}/.search", {"POST": scim.at(scim.search(plural))}, refuse, Body.JSON),
            Route(f"{path}/{{id}}", one, refuse, Body.JSON),
        ]
    typed = _Typed(Paths([(route.path, route) for route in scim_routes]), scim.at(_nothing))
    elsewhere: dict[str, Endpoint] = {}
    for route in scim_routes:
        elsewhere |= dict.fromkeys(route.methods, typed.answer)
    return (
        *scim_routes,
        *(Route(f"{base}/{{+rest}}", elsewhere, refuse, Body.JSON) for base in _BASES),
    )


class _Typed(Struct, frozen=True):
    """Answers requests below a base URL as people type it into a directory.

    That is with a slash at the end, in capitals, or without the version (RFC 7644 section 3.13).
    """

    paths: Paths[Route]
    unknown: Endpoint

    async def answer(self, request: Request) -> Response:
        """Answer as the route of the path that is meant does."""
        parts = [part for part in request.path.split("/") if part][1:]
        if parts and parts[0].lower() in _VERSIONS:
            parts = parts[1:]
        path = "/".join((PREFIX, *parts))
        route, arguments = self.paths.find(path)
        meant = replace(request, path=path, arguments=arguments)
        if route is None:
            return await self.unknown(meant)
        endpoint = route.methods.get(request.method)
        if endpoint is None:
            description = "this address does not take that method"
            raise Refused.because(ErrorCode.METHOD_NOT_ALLOWED, description, "http.method")
        return await endpoint(meant)


class _Scim(Struct, frozen=True):
    """The SCIM endpoints. They ignore cookies, so that no page can call them through a browser."""

    services: Services
    buckets: Buckets

    @property
    def base(self) -> str:
        """The base URL of all resources."""
        return f"{self.services.settings.authorization.url}{PREFIX}"

    def at(self, work: _Work) -> Endpoint:
        """Return the endpoint that runs `work` for an authenticated caller."""

        async def answer(request: Request) -> Response:
            caller = await self._caller(request)
            self._limit(caller)
            return (await work(request, caller)).response()

        return answer

    def search(self, plural: str) -> _Work:
        """Search with a query in the URL, or in the body of a SearchRequest."""

        async def search_resources(request: Request, caller: Caller) -> Answer:
            kind = _kinds(caller)[plural]
            members = search_of(request) if request.method == "POST" else query_of(request)
            scim_request = ScimRequest(caller, read_view(members, kind.schema))
            return await resources.search(kind, scim_request, read_search(members, kind.schema))

        return search_resources

    def one(self, plural: str, method: str) -> _Work:
        """Create a resource, or handle the one in the path."""

        async def perform_request(request: Request, caller: Caller) -> Answer:
            kind = _kinds(caller)[plural]
            preconditions_held = preconditions(
                request.headers.all("if-match"), request.headers.all("if-none-match")
            )
            scim_request = ScimRequest(
                caller, read_view(query_of(request), kind.schema), preconditions_held
            )
            name = request.arguments.get("id", "")
            if method == "GET":
                return await resources.read(kind, scim_request, name)
            if method != "DELETE":
                scim_request = replace(scim_request, body=read_json(request.body))
            return await resources.perform(kind, method, name, scim_request)

        return perform_request

    async def bulk(self, request: Request, caller: Caller) -> Answer:
        """Run a bulk request; each of its operations counts for the rate limit."""

        async def perform(method: str, plural: str, id: str, request: ScimRequest) -> Answer:
            self._limit(caller)
            kind = _kinds(caller).get(plural)
            if kind is None:
                raise not_found()
            return await resources.perform(kind, method, id, request)

        return await resources.run_bulk(ScimRequest(caller, body=read_json(request.body)), perform)

    def descriptions(self) -> Mapping[str, _Work]:
        """Return the discovery documents by path (RFC 7644 section 4)."""

        async def configuration(request: Request, caller: Caller) -> Answer:
            del request, caller
            return Answer(200, self._configuration())

        def types(caller: Caller) -> Mapping[str, Resource]:
            return {kind.schema.name: self._type(kind) for kind in _kinds(caller).values()}

        def schemas(caller: Caller) -> Mapping[str, Resource]:
            return {
                urn: kind.schema.document(urn, f"{self.base}/Schemas/{urn}")
                for kind in _kinds(caller).values()
                for urn in (kind.schema.urn, *kind.schema.extensions)
            }

        return {
            "ServiceProviderConfig": configuration,
            "ResourceTypes": _list(types),
            "ResourceTypes/{id}": _one_of(types),
            "Schemas": _list(schemas),
            "Schemas/{id}": _one_of(schemas),
        }

    async def _caller(self, request: Request) -> Caller:
        text = request.bearer_token
        store, key, now = self.services.store, self.services.fingerprints, request.at
        credential, declared = await store.read(
            lambda tx: (authenticate(tx, key, text, now), tx.attributes())
        )
        if credential is None:
            raise Refused(NO_TOKEN)
        actor = Provisioner(credential.id)
        if credential.last_used_at is None or credential.last_used_at + _NOTED_EVERY <= now:
            await store.write(
                lambda tx: ScimCredentials.of(tx).note_use(credential.id, now),
                done_by=actor.done_by,
            )
        return Caller(self.services, actor, now, self.base, user_schema(declared))

    def _limit(self, caller: Caller) -> None:
        wait = self.buckets.take(caller.actor.credential_id, caller.now)
        if wait:
            raise Refused.because(
                ErrorCode.SLOW_DOWN,
                "this credential sends too many requests",
                "scim.rate",
                retry_after=wait,
            )

    def _type(self, kind: Kind) -> Resource:
        schema = kind.schema
        return {
            "schemas": [f"{CORE}ResourceType"],
            "id": schema.name,
            "name": schema.name,
            "description": schema.description,
            "endpoint": f"/{kind.plural}",
            "schema": schema.urn,
            "schemaExtensions": [{"schema": urn, "required": False} for urn in schema.extensions],
            "meta": {
                "resourceType": "ResourceType",
                "location": f"{self.base}/ResourceTypes/{schema.name}",
            },
        }

    def _configuration(self) -> Resource:
        return {
            "schemas": [f"{CORE}ServiceProviderConfig"],
            "patch": {"supported": True},
            "bulk": {
                "supported": True,
                "maxOperations": resources.MOST_OPERATIONS,
                "maxPayloadSize": resources.MOST_BYTES,
            },
            "filter": {"supported": True, "maxResults": PAGE},
            "changePassword": {"supported": False},
            "sort": {"supported": True},
            "etag": {"supported": True},
            "authenticationSchemes": [
                {
                    "type": "oauthbearertoken",
                    "name": "Bearer token",
                    "description": "The token of a SCIM credential of this server.",
                    "primary": True,
                }
            ],
            "meta": {
                "resourceType": "ServiceProviderConfig",
                "location": f"{self.base}/ServiceProviderConfig",
            },
        }


async def _nothing(request: Request, caller: Caller) -> Answer:
    del caller
    if request.path.removeprefix(f"{PREFIX}/") in _LEFT_OUT:
        # RFC 7644 sections 3.11 and 3.12 ask for this status.
        detail = "this server has no such endpoint of SCIM"
        refusal = Refusal(ErrorCode.INVALID_REQUEST, detail, "scim.left_out", status=501)
        raise Refused(refusal)
    raise not_found()


def _kinds(caller: Caller) -> Mapping[str, Kind]:
    """Return users and groups by the name in their path."""
    return {"Users": Users(caller.user_schema), "Groups": Groups(GROUP)}


def _list(make: Callable[[Caller], Mapping[str, Resource]]) -> _Work:
    async def list_all(request: Request, caller: Caller) -> Answer:
        if "filter" in query_of(request):
            # RFC 7644 section 4: refused, so that the list is not taken for a filtered one.
            raise Refused.because(ErrorCode.FORBIDDEN, "this list takes no filter", "scim.filtered")
        documents = list(make(caller).values())
        return listed(documents, len(documents), 1)

    return list_all


def _one_of(make: Callable[[Caller], Mapping[str, Resource]]) -> _Work:
    async def read_one(request: Request, caller: Caller) -> Answer:
        one = make(caller).get(request.arguments["id"])
        if one is None:
            raise not_found()
        return Answer(200, one)

    return read_one
