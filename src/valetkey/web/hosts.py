"""Several applications behind the same sockets: the Host of a request selects one."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from http import HTTPStatus

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import Runtime
from valetkey.web.client_address import Network
from valetkey.web.connection.exchange import Responder
from valetkey.web.connection.incoming_request import IncomingRequest
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.health import Health
from valetkey.web.router import RoutedApp

RETRY_AFTER = 1
"""Seconds after which a request refused with 503 may be repeated."""

_BUSY = json_response(
    {
        "error": ErrorCode.TEMPORARILY_UNAVAILABLE,
        "error_description": "this issuer is not available; try again in a moment",
    },
    ErrorCode.TEMPORARILY_UNAVAILABLE.status,
)
# Readable from any origin: otherwise a script could not tell "later" from "never".
_HEADERS = (("retry-after", str(RETRY_AFTER)), ("access-control-allow-origin", "*"))


def send_unavailable(request: IncomingRequest) -> None:
    """Answer 503 with Retry-After."""
    response = Response(_BUSY.status, _BUSY.body, (*_BUSY.headers, *_HEADERS))
    request.send(response, hsts=request.tls, bare=request.method == "HEAD")


def send_misdirected(request: IncomingRequest) -> None:
    """Answer 421: the connection has the certificate of another host (RFC 9110 section 15.5.20)."""
    description = "the connection is not one for this Host; open another one"
    members = {"error": ErrorCode.INVALID_REQUEST, "error_description": description}
    response = json_response(members, HTTPStatus.MISDIRECTED_REQUEST)
    request.send(response, hsts=request.tls, bare=request.method == "HEAD")


class Hosts(RoutedApp):
    """Passes each request to the application of its Host; another Host gets 421.

    `/health/live`, `/health/started` and `/health/ready` with another Host, such as the address
    that a probe connects to, report on this process.
    """

    def __init__(
        self,
        find: Callable[[bytes], Responder | None],
        *,
        runtime: Runtime,
        trusted_proxies: Collection[Network],
        background: Sequence[Callable[[], Coroutine[object, object, object]]],
        on_close: Callable[[], Awaitable[object]],
    ) -> None:
        """Find the application of a Host, in lower case, with `find`.

        Connections of `trusted_proxies` are not counted by address; whether an application trusts
        what a proxy says is its own decision. `background` and `on_close`: see `RoutedApp`.
        """
        super().__init__(
            Health({"process": _is_running}, (), "").routes(lambda _: _refuse),
            runtime=runtime,
            refuse=_refuse,
            hosts=(),
            trusted_proxies=trusted_proxies,
            background=background,
            on_close=on_close,
        )
        self._find = find

    async def answer(self, incoming: IncomingRequest) -> None:
        """Pass the request to the application of its host, or answer it as misdirected."""
        # With several Host fields any application refuses.
        chosen = self._find((incoming.headers.raw(b"host") or b"").lower())
        if chosen is None:
            await super().answer(incoming)
        else:
            await chosen.answer(incoming)


async def _is_running(_: object) -> None:
    return


def _refuse(_: Request, refusal: Refusal) -> Response:
    members = {"error": refusal.code, "error_description": refusal.description}
    return json_response(members, refusal.code.status)
