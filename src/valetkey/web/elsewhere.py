"""Redirects for pages requested under another loopback name or with a stray slash at the end."""

import re
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.connection.incoming_request import IncomingRequest
from valetkey.web.exchange import Response

IsPage = Callable[[str], bool]
"""Whether a path is a page for people; only pages are redirected, never endpoints for programs."""

WRONG_HOST = "http.host"
"""The check of a request whose Host this server does not serve."""

_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,100}")
# Excludes a target that a browser could read as another server, or that could end the header.
_TARGET = re.compile(r"/(?:[!-.0-\[\]-~][!-~]*)?")
_METHODS = frozenset(("GET", "HEAD"))


def no_page(path: str) -> bool:
    """Return False: there are no pages."""
    return False


class ServerAddress(Struct, frozen=True):
    """The configured URL of a server, and which of its paths are pages for people.

    A page is redirected to `home` from another loopback name, and to the path with or without a
    slash at the end if only that exists. Anything else receives an error.
    """

    home: str = ""
    is_page: IsPage = no_page

    def refusal(self, host: bytes) -> Refusal:
        """Return the refusal of a request whose Host this server does not serve."""
        received = host.decode("latin-1")
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "this server does not answer for that Host",
            WRONG_HOST,
            expected=urlsplit(self.home).netloc,
            # An invalid host name is not repeated on a page or in the log.
            received=received if _NAME.fullmatch(received) else "no host name",
        )

    def redirect(
        self, asked: IncomingRequest, exists: Callable[[str], bool] | None
    ) -> Response | None:
        """Return the redirect for a page, or None; `exists` is given only when no route matches."""
        path = asked.path
        if asked.method not in _METHODS:
            return None
        if exists is not None:
            other = path[:-1] if path.endswith("/") else f"{path}/"
            found = self.is_page(other) and exists(other)
            return _redirect(308, "", other, asked.query) if found else None
        if not self.is_page(path):
            return None
        host = (asked.headers.raw(b"host") or b"").decode("latin-1").lower()
        configured = urlsplit(self.home)
        if host == configured.netloc or not _is_loopback(configured.hostname or ""):
            return None
        # Temporary (307): the configured URL may change.
        return _redirect(307, self.home, path, asked.query) if _is_loopback_at(host) else None


NOWHERE = ServerAddress()
"""The Elsewhere of a server without pages."""


def _redirect(status: int, home: str, path: str, query: str) -> Response | None:
    target = f"{path}?{query}" if query else path
    if _TARGET.fullmatch(target) is None:
        return None
    headers = (("location", home + target), ("cache-control", "no-store"))
    return Response(status, b"", headers)


def _is_loopback_at(netloc: str) -> bool:
    host = netloc.partition("]")[0].strip("[") if "[" in netloc else netloc.partition(":")[0]
    return _is_loopback(host)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
