"""One structured line per request: method, route, status, duration, address; nothing secret."""

from asyncio import TimerHandle, get_running_loop
from datetime import UTC, datetime

from valetkey.kernel.moment import Instant
from valetkey.web import log

UNKNOWN = "(no route)"
"""Stands for every path that no route knows: what a stranger typed there may be a secret."""

_PAUSE = 0.25
_PENDING = 10_000
Line = tuple[Instant, str, str, int, float, str]
"""When, method, template of the route, status, seconds it took, address."""


class AccessLog:
    """Collects lines and writes them a quarter of a second later, many in one go.

    Between writes it keeps at most 10,000 lines; what comes on top is counted, not kept.
    """

    __slots__ = ("_dropped", "_lines", "_timer")

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._dropped = 0
        self._timer: TimerHandle | None = None

    def add(self, line: Line) -> None:
        """Remember one request."""
        if not log.wants("info"):
            return
        if len(self._lines) >= _PENDING:
            self._dropped += 1
            return
        self._lines.append(line)
        if self._timer is None:
            self._timer = get_running_loop().call_later(_PAUSE, self.flush)

    def flush(self) -> None:
        """Write what was collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            log.many("info", [_row(line) for line in lines])
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            log.warning("requests_not_logged", count=dropped)


def _row(line: Line) -> dict[str, log.Field]:
    at, method, path, status, duration, address = line
    return {
        "timestamp": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "event": "request",
        "method": method,
        "path": path,
        "status": status,
        "milliseconds": round(duration * 1_000, 2),
        "address": address,
    }
