"""Django: a decorator for views, and a middleware for whole sites."""

# Django has no types; its values are typed where they enter.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Awaitable, Callable, Collection
from functools import wraps
from inspect import iscoroutinefunction
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path

from valetkey.kernel.refusal import Refused
from valetkey.sdk.adapters.gate import METADATA_HEADERS, Background, Denial, Gate
from valetkey.sdk.caller import Caller

P = ParamSpec("P")
R = TypeVar("R")

View: TypeAlias = Callable[Concatenate[HttpRequest, Caller, P], R]
Guarded: TypeAlias = Callable[Concatenate[HttpRequest, P], R | HttpResponse]
GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]

KEY = "valetkey.caller"
"""The key of the caller in `request.META`, set by the middleware."""


class Require:
    """Create decorators: `@require("notes:read")` passes the caller after the request."""

    def __init__(self, gate: Gate) -> None:
        """Use `gate`."""
        self.gate = gate
        self.background = Background(gate)

    def __call__(
        self, *needs: str, roles: Collection[str] = ()
    ) -> Callable[[View[P, R]], Guarded[P, R]]:
        """Return a decorator for sync and async views; it answers others with the error.

        Any one scope in `needs` suffices, and any one role in `roles`; the challenge names the
        first scope. `Refused` that the view raises, by `demand` for example, is answered likewise.
        """
        self.gate.needs(needs)

        def decorate(view: View[P, R]) -> Guarded[P, R]:
            # Django inspects the function too.
            if iscoroutinefunction(view):
                waiting = cast("View[P, Awaitable[HttpResponse]]", view)
                return cast("Guarded[P, R]", self._asynchronous(waiting, needs, roles))

            @wraps(view)
            def plain(
                request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
            ) -> R | HttpResponse:
                try:
                    caller = self.background.admit(authorization(request), *needs, roles=roles)
                    return view(request, caller, *args, **kwargs)
                except Refused as refused:
                    return respond(self.gate.deny(refused.refusal, needs))

            return plain

        return decorate

    def urls(self) -> list[URLPattern | URLResolver]:
        """Return the URL pattern of the API's metadata, for the `urlpatterns` at the root."""
        if not self.gate.metadata_path:
            return []

        def metadata(_: HttpRequest) -> HttpResponse:
            return HttpResponse(
                self.gate.metadata(), content_type="application/json", headers=METADATA_HEADERS
            )

        return [path(self.gate.metadata_path.removeprefix("/"), metadata)]

    def middleware(
        self, *needs: str, roles: Collection[str] = (), open_paths: Collection[str] = ()
    ) -> Callable[[GetResponse], GetResponse]:
        """Return a middleware that requires a token for every view except `open_paths`.

        Views find the caller with `caller_of(request)`.
        """
        self.gate.needs(needs)
        passed = frozenset(open_paths) | {self.gate.metadata_path}

        def install(get_response: GetResponse) -> GetResponse:
            def guarded(request: HttpRequest) -> HttpResponse:
                if request.path in passed:
                    return get_response(request)
                try:
                    caller = self.background.admit(authorization(request), *needs, roles=roles)
                except Refused as refused:
                    return respond(self.gate.deny(refused.refusal, needs))
                request.META[KEY] = caller
                return get_response(request)

            return guarded

        return install

    def _asynchronous(
        self,
        view: View[P, Awaitable[HttpResponse]],
        needs: tuple[str, ...],
        roles: Collection[str],
    ) -> Callable[Concatenate[HttpRequest, P], Awaitable[HttpResponse]]:
        @wraps(view)
        async def guarded(
            request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponse:
            try:
                fields = authorization(request)
                caller = await self.background.admit_async(fields, *needs, roles=roles)
                return await view(request, caller, *args, **kwargs)
            except Refused as refused:
                return respond(self.gate.deny(refused.refusal, needs))

        return guarded


def protect(gate: Gate) -> Require:
    """Return decorators, the metadata's URL and middleware for this gate."""
    return Require(gate)


def caller_of(request: HttpRequest) -> Caller:
    """Return the caller of a request. Raises KeyError without the middleware."""
    caller: Caller = request.META[KEY]
    return caller


def authorization(request: HttpRequest) -> list[str]:
    """Return the Authorization field; several, joined with a comma by servers, are refused."""
    field: str | None = request.META.get("HTTP_AUTHORIZATION")
    return [] if field is None else [field]


def respond(denial: Denial) -> HttpResponse:
    """Return the denial as a Django response."""
    return HttpResponse(denial.body, status=denial.status, headers=dict(denial.headers))
