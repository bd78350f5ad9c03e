"""Any WSGI application behind a gate (PEP 3333)."""

import sys
from collections.abc import Collection, Iterable
from http import HTTPStatus
from types import TracebackType
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from valetkey.kernel.refusal import Refused
from valetkey.sdk.adapters.gate import METADATA_HEADERS, Background, Denial, Gate
from valetkey.sdk.caller import Caller

OptExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

KEY = "valetkey.caller"
"""The key of the caller in the environment of an admitted request."""


class Protected:
    """Require one of the scopes in `needs` for every request to an application.

    With `roles`, callers need one of these roles at the API as well. It serves the API's metadata
    itself, and `open_paths`, exact paths, need no token.
    """

    def __init__(
        self,
        app: WSGIApplication,
        gate: Gate,
        needs: Collection[str] = (),
        open_paths: Collection[str] = (),
        roles: Collection[str] = (),
    ) -> None:
        """Wrap `app`."""
        gate.needs(needs)
        self._app = app
        self._gate = gate
        self._needs = tuple(needs)
        self._roles = tuple(roles)
        self._open = frozenset(open_paths)
        self._background = Background(gate)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Admit one request or answer with the error."""
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        if path == self._gate.metadata_path and environ["REQUEST_METHOD"] in {"GET", "HEAD"}:
            content = (("content-type", "application/json"), *METADATA_HEADERS.items())
            return _answer(Denial(200, content, self._gate.metadata()), environ, start_response)
        if path in self._open:
            return self._app(environ, start_response)
        try:
            fields = authorization(environ)
            environ[KEY] = self._background.admit(fields, *self._needs, roles=self._roles)
            return self._app(environ, start_response)
        except Refused as refused:
            denial = self._gate.deny(refused.refusal, self._needs)
            # With the exception, so that a server aborts a response that has begun.
            return _answer(denial, environ, start_response, sys.exc_info())

    def close(self) -> None:
        """End the thread that follows the issuer; the next request starts it again."""
        self._background.close()


def caller_of(environ: WSGIEnvironment) -> Caller:
    """Return the caller in this environment. Raises KeyError without a gate before it."""
    caller: Caller = environ[KEY]
    return caller


def authorization(environ: WSGIEnvironment) -> list[str]:
    """Return the Authorization field; several, joined with a comma by servers, are refused."""
    field: str | None = environ.get("HTTP_AUTHORIZATION")
    return [] if field is None else [field]


def _answer(
    denial: Denial,
    environ: WSGIEnvironment,
    start_response: StartResponse,
    error: OptExcInfo | None = None,
) -> Iterable[bytes]:
    headers = [*denial.headers, ("content-length", str(len(denial.body)))]
    status = f"{denial.status} {HTTPStatus(denial.status).phrase}"
    if error is None:
        start_response(status, headers)
    else:
        start_response(status, headers, error)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [denial.body]
