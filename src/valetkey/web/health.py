"""Health endpoints (live, started, ready); each responds within a second even if a check hangs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import same
from valetkey.web import log
from valetkey.web.exchange import Endpoint, Refuse, Request, Response, json_response
from valetkey.web.router import Route

Check = Callable[[Instant], Awaitable[object]]
"""Returns if this part of the server works, raises if it does not."""

_WITHIN = 0.8  # seconds for all checks together
_NOT_READY = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the server is not ready; try again in a moment",
    "http.unavailable",
    retry_after=1,
)


class Health(Struct, frozen=True):
    """The named checks of one server; exceptions in `failures` mean that a check failed.

    A request that presents `token` gets the result and reason of each check; without a configured
    token these are never shown.
    """

    checks: Mapping[str, Check]
    failures: tuple[type[Exception], ...]
    token: str

    def routes(self, refuse_at: Callable[[str], Refuse]) -> tuple[Route, ...]:
        """Return `/health/{live,started,ready}`, for GET and HEAD, with any Host."""
        endpoints: Mapping[str, Endpoint] = {
            "/health/live": self._live,
            "/health/started": self._begun,
            "/health/ready": self._ready,
        }
        return tuple(
            Route(path, {"GET": answer}, refuse_at(path), quiet=True, any_host=True)
            for path, answer in endpoints.items()
        )

    async def _live(self, request: Request) -> Response:
        return json_response({"status": "live"})

    async def _begun(self, request: Request) -> Response:
        # A server listens only after its database answered and its keys were loaded, so it has
        # started; later failures are reported by `ready`.
        return json_response({"status": "started"})

    async def _ready(self, request: Request) -> Response:
        reasons = await self._look(request.at)
        wrong = [f"{name}: {why}" for name, why in reasons.items() if why]
        if wrong:
            log.throttled("warning", "health.not_ready", "; ".join(wrong))
        well = not wrong
        if not well and not self._trusts(request):
            raise Refused(_NOT_READY)
        answer: dict[str, object] = {"status": "ready" if well else "not ready"}
        if self._trusts(request):
            answer["checks"] = {name: why or "ok" for name, why in reasons.items()}
        return json_response(answer, 200 if well else 503)

    async def _look(self, now: Instant) -> Mapping[str, str]:
        """Run all checks; return for each what is wrong, "" for nothing."""
        tasks = {name: asyncio.ensure_future(check(now)) for name, check in self.checks.items()}
        _, late = await asyncio.wait(tasks.values(), timeout=_WITHIN)
        for task in late:
            task.cancel()
        return {
            name: "no answer in time" if task in late else self._wrong(task)
            for name, task in tasks.items()
        }

    def _wrong(self, task: "asyncio.Future[object]") -> str:
        failure = task.exception()
        if failure is None:
            return ""
        if not isinstance(failure, self.failures):
            raise failure
        return f"{type(failure).__name__}: {failure}"

    def _trusts(self, request: Request) -> bool:
        scheme, _, shown = (request.headers.get("authorization") or "").partition(" ")
        return bool(self.token) and scheme.lower() == "bearer" and same(shown.strip(), self.token)
