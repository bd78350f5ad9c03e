"""Where a page is when it was asked for under another name of this machine, or a slash apart."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.connection.asked import Asked
from valetkey.web.exchange import Response

IsPage = Callable[[str], bool]
"""Whether a path is a page for people; redirects are for those alone, never for programs."""

WRONG_HOST = "http.host"
"""The check of a request for a host for which this server does not answer."""

_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,100}")
# Nothing that a browser could take for another server, or a header for its end.
_TARGET = re.compile(r"/(?:[!-.0-\[\]-~][!-~]*)?")
_METHODS = frozenset(("GET", "HEAD"))


def no_page(path: str) -> bool:
    """Say that there are no pages."""
    return False


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The configured URL of a server, and which of its paths are pages for people.

    A page is redirected to `home` from another name of loopback, and to its address with or without
    a slash at the end, whichever there is. Nothing else is: programs get an error.
    """

    home: str = ""
    is_page: IsPage = no_page

    def refusal(self, host: bytes) -> Refusal:
        """The refusal of a request for a host for which this server does not answer."""
        received = host.decode("latin-1")
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "this server does not answer for that Host",
            WRONG_HOST,
            expected=urlsplit(self.home).netloc,
            # What is no host name is repeated nowhere: neither on a page nor in the record.
            received=received if _NAME.fullmatch(received) else "no host name",
        )

    def redirect(self, asked: Asked, exists: Callable[[str], bool] | None) -> Response | None:
        """The redirect of a page that is elsewhere; `exists` judges paths where no route fits."""
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
        # Temporary: the configuration may change.
        return _redirect(307, self.home, path, asked.query) if _is_loopback_at(host) else None


NOWHERE = Elsewhere()
"""Of a server without pages."""


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
