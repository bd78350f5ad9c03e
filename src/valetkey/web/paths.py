"""Match request paths, and redirect pages that are requested under another name of the server."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.connection.incoming_request import IncomingRequest
from valetkey.web.exchange import NO_ARGUMENTS, Response

T = TypeVar("T")
Arguments = Mapping[str, str]

_OPEN = re.compile(r"\{[a-z_]+\}")
_NOWHERE: tuple[None, Arguments] = (None, NO_ARGUMENTS)


class Paths(Generic[T]):
    """Maps paths to values.

    A segment written `{name}` matches any non-empty segment, `{+name}` at the end any rest of the
    path. If two patterns match, the one with text in the first segment that differs wins, in
    any order; of two that differ in names alone, the earlier one.
    """

    def __init__(self, paths: Sequence[tuple[str, T]]) -> None:
        """Index the paths. Raises ValueError if two are equal."""
        self.exact = {path: value for path, value in paths if "{" not in path}
        patterns = sorted((pair for pair in paths if "{" in pair[0]), key=lambda it: _rank(it[0]))
        self._patterns = tuple((_pattern(path), value) for path, value in patterns)
        if len(self.exact) + len(self._patterns) != len(paths):
            raise ValueError("two routes have the same path")
        by_path = dict(paths)
        self._below = {
            folder: (name, by_path[f"{folder}/{{{name}}}"])
            for folder, name in _folders(tuple(path for path, _ in paths)).items()
        }

    def find(self, path: str) -> tuple[T | None, Arguments]:
        """Return the value for `path`, and its variable segments as they were sent."""
        exact = self.exact.get(path)
        if exact is not None:
            return exact, NO_ARGUMENTS
        folder, _, last = path.rpartition("/")
        pair = self._below.get(folder)
        if pair is not None and last:
            return pair[1], {pair[0]: last}
        for pattern, candidate in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return candidate, match.groupdict()
        return _NOWHERE


# A process that builds a server again has the same paths.
@lru_cache(maxsize=16)
def _folders(paths: tuple[str, ...]) -> Mapping[str, str]:
    """Return the common patterns with only the last segment variable: its name by what precedes.

    Patterns that overlap are left out: there the others are asked, too.
    """
    names: dict[str, str] = {}
    for path in paths:
        folder, _, last = path.rpartition("/")
        if "{" not in folder and _OPEN.fullmatch(last):
            names[folder] = last[1:-1]
    patterns = [_pattern(path) for path in paths if "{" in path]
    return {
        folder: name
        for folder, name in names.items()
        if sum(pattern.fullmatch(f"{folder}/x") is not None for pattern in patterns) == 1
    }


@lru_cache(maxsize=1_024)
def _rank(path: str) -> tuple[int, ...]:
    """Return what sorts a pattern: for each segment, 0 for text, 1 for any, 2 for any rest."""
    segments = path.split("/")
    return tuple(
        2 if segment.startswith("{+") else int(segment.startswith("{")) for segment in segments
    )


@lru_cache(maxsize=1_024)
def _pattern(path: str) -> re.Pattern[str]:
    pattern = re.escape(path)
    # A segment is never empty.
    pattern = re.sub(r"\\\{([a-z_]+)\\\}", r"(?P<\1>[^/]+)", pattern)
    return re.compile(re.sub(r"\\\{\\\+([a-z_]+)\\\}$", r"(?P<\1>.*)", pattern))


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
        self, request: IncomingRequest, exists: Callable[[str], bool] | None
    ) -> Response | None:
        """Return the redirect for a page, or None; `exists` is given only when no route matches."""
        path = request.path
        if request.method not in _METHODS:
            return None
        if exists is not None:
            other = path[:-1] if path.endswith("/") else f"{path}/"
            page_exists = self.is_page(other) and exists(other)
            return _redirect(308, "", other, request.query) if page_exists else None
        if not self.is_page(path):
            return None
        host = (request.headers.raw(b"host") or b"").decode("latin-1").lower()
        configured = urlsplit(self.home)
        if host == configured.netloc or not _is_loopback(configured.hostname or ""):
            return None
        # Temporary (307): the configured URL may change.
        return _redirect(307, self.home, path, request.query) if _is_loopback_at(host) else None


NOWHERE = ServerAddress()
"""The address of a server without pages."""


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
