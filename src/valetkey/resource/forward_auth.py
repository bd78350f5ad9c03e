"""/forward-auth: lets a proxy authenticate the caller of a request before passing it on.

nginx (`auth_request`), Traefik (`forwardAuth`) and Caddy (`forward_auth`) call `/forward-auth` and
name the required scope in the query. Envoy (`ext_authz` over HTTP) appends the caller's path and
query to that path, with the caller's method and Host. Only a header can name the required scope
there, because the caller controls everything else.
"""

from urllib.parse import quote

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.resource.problem import Problems
from valetkey.sdk import Caller, Protection, read_bearer
from valetkey.web.body import read_query
from valetkey.web.exchange import Endpoint, Pairs, Request, Response
from valetkey.web.router import Route

PATH = "/forward-auth"

NEEDED = "x-valetkey-required-scope"
"""The header in which a proxy may name the required scope; the only header of ours that is read.

A caller who sends it too can only raise the requirement: every scope requested in it is checked.
"""

_BELOW = f"{PATH}/{{+rest}}"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_READABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_UNSAID = Refusal(
    ErrorCode.INVALID_REQUEST,
    f"the proxy must say which scope is needed: ?scope=… or the header {NEEDED}",
    "forward_auth.unsaid",
    "a scope",
    "nothing",
)


class ForwardAuth:
    """Answer proxies: 200 with the caller's identity, or 401 and 403 as the API itself does."""

    def __init__(self, protection: Protection, problems: Problems) -> None:
        """Check tokens with `protection`, whose audience is this API; refuse by `problems`."""
        self._protection = protection
        self._problems = problems

    def routes(self) -> tuple[Route, Route]:
        """Return the routes: the path, and every path below it for proxies that append theirs."""
        return self._route(PATH, asks_in_query=True), self._route(_BELOW, asks_in_query=False)

    def _route(self, path: str, *, asks_in_query: bool) -> Route:
        endpoint = self._endpoint(path, asks_in_query=asks_in_query)
        return Route(
            path,
            dict.fromkeys(_METHODS, endpoint),
            self._problems.refuse_at(path),
            hides_query=True,
            any_host=True,
        )

    def _endpoint(self, path: str, *, asks_in_query: bool) -> Endpoint:
        async def answer(request: Request) -> Response:
            needed = ""
            try:
                token = read_bearer(request.headers.all("authorization"))
                alternatives = _needed(request, asks_in_query=asks_in_query)
                needed = str(alternatives[0])
                caller = await self._protection.caller(token, request.at)
                if not any(scope <= caller.scope for scope in alternatives):
                    raise Refused(_too_narrow(alternatives, caller))
            except Refused as refused:
                return self._problems.answer(request, refused.refusal, endpoint=path, scope=needed)
            return Response(200, b"", identity(caller))

        return answer


def _needed(request: Request, *, asks_in_query: bool) -> tuple[Scope, ...]:
    """Return the scopes of which one suffices. Raises Refused: a proxy must name at least one."""
    query = read_query(request.hidden_query, multiple=("scope",)) if asks_in_query else None
    alternatives = [] if query is None else [Scope.parse(text) for text in query.all("scope")]
    always = [Scope.parse(text) for text in request.headers.all(NEEDED)]
    if not all(scope.names for scope in (*alternatives, *always)):
        raise Refused(_UNSAID)
    if always:
        demanded = always[0]
        for more in always[1:]:
            demanded |= more
        alternatives = [scope | demanded for scope in alternatives] or [demanded]
    if not alternatives:
        raise Refused(_UNSAID)
    return tuple(alternatives)


def _too_narrow(alternatives: tuple[Scope, ...], caller: Caller) -> Refusal:
    required = " or ".join(str(scope) for scope in alternatives)
    return Refusal(
        ErrorCode.INSUFFICIENT_SCOPE,
        f"this needs an access token with the scope {required}",
        "scope.missing",
        required,
        str(caller.scope) or "no scope",
    )


def identity(caller: Caller) -> Pairs:
    """Return the caller's identity as headers, always all of them, non-empty printable ASCII.

    If a header were missing, some proxies would pass on the caller's own header of that name.
    """
    headers = (
        ("x-valetkey-subject", caller.subject),
        ("x-valetkey-subject-type", "client" if caller.user is None else "user"),
        ("x-valetkey-client", caller.client_id),
        ("x-valetkey-scope", str(caller.scope)),
        ("x-valetkey-token-id", caller.token_id),
        ("x-valetkey-expires-at", str(caller.expires_at)),
    )
    return tuple((name, quote(value, safe=_READABLE) or "-") for name, value in headers)
