"""What standard error tells: events with typed fields, and one line for each request.

Nothing is interpolated, no request is dumped, and an exception shows its type and where it came
from but neither its message nor its locals: each of them may hold a secret.
"""

import logging
import sys
from asyncio import TimerHandle, get_running_loop
from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from traceback import walk_tb
from typing import TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from valetkey.kernel.moment import Instant

Field = str | int | float | bool | None

LEVELS = ("debug", "info", "warning", "error")

_NUMBER = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FRAMES = 12
UNKNOWN = "(no route)"
"""Stands for every path that no route knows: what a stranger typed there may be a secret."""

_PAUSE = 0.25
_PENDING = 10_000
Line = tuple[Instant, str, str, int, float, str]
"""When, method, template of the route, status, seconds it took, address."""
_timestamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


class _Output:
    """Where lines go and how they look; replaced as a whole by `set_up`."""

    def __init__(self, level: str, style: str, stream: TextIO | None) -> None:
        self.threshold = _NUMBER[level]
        self._stream = stream
        self._render: Processor = _json
        if style == "text" or (style == "auto" and self.stream.isatty()):
            self._render = structlog.dev.ConsoleRenderer(colors=self.stream.isatty())

    @property
    def stream(self) -> TextIO:
        # Looked up late: whoever redirects standard error means us too.
        return sys.stderr if self._stream is None else self._stream

    def line(self, level: str, fields: EventDict) -> str:
        return cast("str", self._render(None, level, fields))

    def write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class _Bridge(logging.Handler):
    """Libraries log by the same rules: their template, without what they would fill in."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        failure = record.exc_info[1] if record.exc_info else None
        _tell(
            level if level in _NUMBER else "error",
            "library",
            {"logger": record.name, "template": str(record.msg)},
            failure,
        )


def set_up(level: str = "info", style: str = "auto", stream: TextIO | None = None) -> None:
    """From now on, tell events of `level` and above to `stream` (standard error by default).

    `style` is `json`, `text`, or `auto`: text on a terminal. Libraries are heard from warning on.
    """
    global _output  # noqa: PLW0603 - one process has one standard error
    _output = _Output(level, style, stream)
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]
    root.addHandler(_Bridge())
    root.setLevel(max(_output.threshold, logging.WARNING))


def wants(level: str) -> bool:
    """Whether events of `level` are told at all; ask before collecting costly fields."""
    return _NUMBER[level] >= _output.threshold


def debug(event: str, **fields: Field) -> None:
    """Tell what only a developer of this program wants to know."""
    _tell("debug", event, fields, None)


def info(event: str, **fields: Field) -> None:
    """Tell what happened."""
    _tell("info", event, fields, None)


def warning(event: str, **fields: Field) -> None:
    """Tell what an operator should look at some day."""
    _tell("warning", event, fields, None)


def error(event: str, failure: BaseException | None = None, **fields: Field) -> None:
    """Tell what an operator should look at now; of `failure`, its type and where it came from."""
    _tell("error", event, fields, failure)


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
        if not wants("info"):
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
            _many("info", [_row(line) for line in lines])
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            warning("requests_not_logged", count=dropped)


def _tell(
    level: str, event: str, fields: MutableMapping[str, Field], failure: BaseException | None
) -> None:
    if not wants(level):
        return
    told: EventDict = {"level": level, "event": event}
    told.update({name: _typed(value) for name, value in fields.items()})
    if failure is not None:
        told.update({"failure": type(failure).__qualname__, "where": _where(failure)})
    _timestamp(None, level, told)
    _output.write(_output.line(level, told) + "\n")


def _row(line: Line) -> dict[str, Field]:
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


def _many(level: str, rows: Iterable[MutableMapping[str, Field]]) -> None:
    """Tell many events, timestamps and names included in each row, in one write."""
    text = "".join(_output.line(level, {"level": level, **row}) + "\n" for row in rows)
    _output.write(text)


def _typed(value: object) -> Field:
    # Types are checked before we run; this is for what slips through.
    if value is None or isinstance(value, (str, int, float, bool)):
        return str(value) if isinstance(value, str) else value
    return f"({type(value).__name__})"


def _where(failure: BaseException) -> str:
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{line}:{frame.f_code.co_name}"
        for frame, line in walk_tb(failure.__traceback__)
    ]
    return " > ".join(frames[-_FRAMES:])


def _json(_: object, __: str, fields: EventDict) -> str:
    return msgspec.json.encode(fields).decode()


_output = _Output("warning", "json", None)
