"""Match a request path against fixed paths and patterns with variable segments."""

import re
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from valetkey.web.exchange import NO_ARGUMENTS

T = TypeVar("T")
Arguments = Mapping[str, str]

_OPEN = re.compile(r"\{[a-z_]+\}")
_NOWHERE: tuple[None, Arguments] = (None, NO_ARGUMENTS)


class Paths(Generic[T]):
    """Maps paths to values; if two patterns match, the earlier one wins.

    A segment written `{name}` matches any non-empty segment, `{+name}` at the end any rest of the
    path.
    """

    def __init__(self, paths: Sequence[tuple[str, T]]) -> None:
        """Index the paths. Raises ValueError if two are equal."""
        self.exact = {path: found for path, found in paths if "{" not in path}
        self._patterns = tuple((_pattern(path), found) for path, found in paths if "{" in path)
        if len(self.exact) + len(self._patterns) != len(paths):
            raise ValueError("two routes have the same path")
        self._below = self._by_folder(paths)

    def find(self, path: str) -> tuple[T | None, Arguments]:
        """Return the value for `path`, and its variable segments as they were sent."""
        exact = self.exact.get(path)
        if exact is not None:
            return exact, NO_ARGUMENTS
        folder, _, last = path.rpartition("/")
        found = self._below.get(folder)
        if found is not None and last:
            return found[1], {found[0]: last}
        for pattern, candidate in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return candidate, match.groupdict()
        return _NOWHERE

    def _by_folder(self, paths: Sequence[tuple[str, T]]) -> Mapping[str, tuple[str, T]]:
        """Index by prefix the common patterns in which only the last segment is variable."""
        below: dict[str, tuple[str, T]] = {}
        for path, found in paths:
            folder, _, last = path.rpartition("/")
            if "{" not in folder and _OPEN.fullmatch(last):
                below[folder] = (last[1:-1], found)
        # Patterns that overlap are left out: there the order of the patterns decides.
        return {
            folder: each
            for folder, each in below.items()
            if sum(pattern.fullmatch(f"{folder}/x") is not None for pattern, _ in self._patterns)
            == 1
        }


def _pattern(path: str) -> re.Pattern[str]:
    pattern = re.escape(path)
    # A segment is never empty.
    pattern = re.sub(r"\\\{([a-z_]+)\\\}", r"(?P<\1>[^/]+)", pattern)
    return re.compile(re.sub(r"\\\{\\\+([a-z_]+)\\\}$", r"(?P<\1>.*)", pattern))
