"""The log on standard error: typed events, a line for each request, with its id and its span.

Values are never interpolated and requests never dumped. An exception is logged with its type and
origin but without its message and locals: any of these may contain a secret.
"""

import logging
import re
import sys
from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from pathlib import Path
from time import monotonic
from traceback import walk_tb
from typing import TYPE_CHECKING, TextIO

import msgspec

from valetkey.kernel import metrics
from valetkey.kernel.metrics import OTHER
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import ISSUER, import_lazily
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.tracing import CALLER, TRACES, Span, SpanKind
from valetkey.web.client_address import Proxies
from valetkey.web.connection.incoming_request import IncomingRequest

if TYPE_CHECKING:
    import structlog
else:
    structlog = import_lazily("structlog")

Field = str | int | float | bool | None

_NUMBER = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_INFO = _NUMBER["info"]
_FRAMES = 12
UNKNOWN = "(no route)"
"""Replaces every path that matches no route: what a client typed there may be a secret."""

_PAUSE = 0.25
_PENDING = 10_000
_MINUTE = 60.0
_CAUSES = 200  # remembered at a time
Line = tuple[Instant, str, str, int, float, str, str, str, str, str]
"""Time, method, path template of the route, status, duration in seconds, client address, request
id, the reference of the decision record or "", trace id and span id or ""."""
_Fields = MutableMapping[str, Field]
_Render = Callable[[object, str, _Fields], str]


class _Output:
    """The destination and format of log lines; replaced as a whole by `set_up`."""

    def __init__(self, level: str, style: str, stream: TextIO | None) -> None:
        self.threshold = _NUMBER[level]
        self._stream = stream
        self._render: _Render = _json
        self._ecs = style == "ecs"
        if style == "text" or (style == "auto" and self.stream.isatty()):
            self._render = structlog.dev.ConsoleRenderer(colors=self.stream.isatty())

    @property
    def stream(self) -> TextIO:
        # Looked up on each write, so that redirecting sys.stderr also redirects the log.
        return sys.stderr if self._stream is None else self._stream

    def line(self, level: str, fields: _Fields) -> str:
        return self._render(None, level, _in_ecs(fields) if self._ecs else fields)

    def rows(self, rows: Sequence["_Row"]) -> str:
        """Format many request lines; plain JSON is encoded in one call."""
        if self._render is _json and not self._ecs:
            return _encoder.encode_lines(rows).decode()
        fields = [_fields(row) for row in rows]
        return "".join(self.line("info", row_fields) + "\n" for row_fields in fields)

    def write(self, text: str) -> None:
        # A full disk or a closed terminal must not end the server.
        with suppress(OSError):
            self.stream.write(text)
            self.stream.flush()


class _Bridge(logging.Handler):
    """Forwards library logs: the message template only, without its arguments."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        failure = record.exc_info[1] if record.exc_info else None
        _write(
            level if level in _NUMBER else "error",
            "library",
            {"logger": record.name, "template": str(record.msg)},
            failure,
        )


def set_up(level: str = "info", style: str = "auto", stream: TextIO | None = None) -> None:
    """Log events of `level` and above to `stream` (standard error by default).

    `style` is `json`, `ecs`, `text`, or `auto`: text on a terminal, else JSON. Library events are
    logged from warning upwards.
    """
    global _output  # noqa: PLW0603 - one process has one standard error
    _output = _Output(level, style, stream)
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]
    root.addHandler(_Bridge())
    root.setLevel(max(_output.threshold, logging.WARNING))


def is_enabled(level: str) -> bool:
    """Return whether events of `level` are logged; check it before collecting costly fields."""
    return _NUMBER[level] >= _output.threshold


def debug(event: str, **fields: Field) -> None:
    """Log an event of interest only to developers of this program."""
    _write("debug", event, fields, None)


def info(event: str, **fields: Field) -> None:
    """Log an event."""
    _write("info", event, fields, None)


def warning(event: str, **fields: Field) -> None:
    """Log an event that an operator should look into at some point."""
    _write("warning", event, fields, None)


def error(event: str, failure: BaseException | None = None, **fields: Field) -> None:
    """Log an event that needs attention now, with the type and origin of `failure`."""
    _write("error", event, fields, failure)


def throttled(
    level: str, event: str, cause: str, failure: BaseException | None = None, **fields: Field
) -> None:
    """Log an event at most once a minute for each cause, with the number of repetitions.

    `cause` must contain nothing that a client sent. The origin of `failure` is a part of the cause.
    """
    where = "" if failure is None else _where(failure)
    at, key = monotonic(), (ISSUER.get(), event, cause, where)
    last, left_out = _seldom.get(key, (-_MINUTE, 0))
    if at - last < _MINUTE:
        _seldom[key] = (last, left_out + 1)
        return
    if len(_seldom) >= _CAUSES:
        _seldom.clear()
    _seldom[key] = (at, 0)
    _write(level, event, {"cause": cause, "repeated": left_out, **fields}, failure)


def database(problem: str) -> None:
    """Log that the database cannot be used and why; with "" that it can be used again."""
    if problem:
        error("database.lost", problem=problem)
    else:
        info("database.found")


class AccessLog:
    """Collects request lines and writes them together after a quarter of a second.

    At most 10,000 lines are kept between writes; the number of lines dropped beyond that is logged.
    """

    __slots__ = ("_dropped", "_issuer", "_lines", "_timer")

    def __init__(self) -> None:
        self._issuer = ISSUER.get()
        self._lines: list[Line] = []
        self._dropped = 0
        self._timer: TimerHandle | None = None

    def add(self, line: Line) -> None:
        """Add the line of one request."""
        if _output.threshold > _INFO:
            return
        if len(self._lines) >= _PENDING:
            self._dropped += 1
            return
        self._lines.append(line)
        if self._timer is None:
            self._timer = get_running_loop().call_later(_PAUSE, self.flush)

    def flush(self) -> None:
        """Write the collected lines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            _output.write(_output.rows([_row(line, self._issuer) for line in lines]))
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            warning("requests_not_logged", count=dropped)


def _write(level: str, event: str, fields: _Fields, failure: BaseException | None) -> None:
    metrics.LOG_LINES.add(level)
    if not is_enabled(level):
        return
    members: _Fields = {"level": level, "event": event}
    members.update({name: _typed(value) for name, value in fields.items()})
    if issuer := ISSUER.get():
        members["issuer"] = issuer
    caller = CALLER.get()
    if caller is not None and caller.request_id:
        members["request_id"] = caller.request_id
        if caller.span.trace_id:
            members["trace_id"] = caller.span.trace_id.hex()
            members["span_id"] = caller.span.span_id.hex()
    if failure is not None:
        members.update({"failure": type(failure).__qualname__, "where": _where(failure)})
    now = datetime.now(UTC)  # noqa: TID251 - it only says when this line was written
    members["timestamp"] = now.isoformat().replace("+00:00", "Z")
    _output.write(_output.line(level, members) + "\n")


class _Row(msgspec.Struct, omit_defaults=True):
    """One request as it is written to the log."""

    level: str
    timestamp: str
    event: str
    method: str
    path: str
    status: int
    milliseconds: float
    address: str
    request_id: str
    reference: str = ""
    trace_id: str = ""
    span_id: str = ""
    issuer: str = ""


_FIELDS = _Row.__struct_fields__
_OPTIONAL = ("reference", "trace_id", "span_id", "issuer")


_ECS = {
    "timestamp": "@timestamp",
    "level": "log.level",
    "event": "event.action",
    "method": "http.request.method",
    "path": "url.path",
    "status": "http.response.status_code",
    "address": "client.address",
    "request_id": "http.request.id",
    "trace_id": "trace.id",
    "span_id": "span.id",
    "failure": "error.type",
    "cause": "error.message",
    "where": "error.stack_trace",
}


def _in_ecs(fields: _Fields) -> _Fields:
    """Rename fields to the Elastic Common Schema; others are prefixed with `valetkey.`."""
    members: _Fields = {"ecs.version": "8.11.0", "service.name": "valetkey"}
    for name, value in fields.items():
        if name == "milliseconds" and isinstance(value, float):
            members["event.duration"] = round(value * 1_000_000)
        else:
            members[_ECS.get(name, f"valetkey.{name}")] = value
    return members


def _fields(row: _Row) -> _Fields:
    fields = {name: getattr(row, name) for name in _FIELDS}
    return {name: value for name, value in fields.items() if value or name not in _OPTIONAL}


def _row(line: Line, issuer: str) -> _Row:
    # Every field by name: a starred one doubles the time of this function.
    at, method, path, status, duration, address, request, reference, trace, span = line
    took, written = int(100_000 * duration + 0.5) / 100, _written(at)
    return _Row(
        "info",
        written,
        "request",
        method,
        path,
        status,
        took,
        address,
        request,
        reference,
        trace,
        span,
        issuer,
    )


@lru_cache(maxsize=8)
def _written(at: Instant) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _typed(value: object) -> Field:
    # Types are checked statically; this handles values that escape the checker.
    if value is None or isinstance(value, (str, int, float, bool)):
        return str(value) if isinstance(value, str) else value
    return f"({type(value).__name__})"


def _where(failure: BaseException) -> str:
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{line}:{frame.f_code.co_name}"
        for frame, line in walk_tb(failure.__traceback__)
    ]
    return " > ".join(frames[-_FRAMES:])


def _json(_: object, __: str, fields: _Fields) -> str:
    return _encoder.encode(fields).decode()


_seldom: dict[tuple[str, ...], tuple[float, int]] = {}
_encoder = msgspec.json.Encoder()
_output = _Output("warning", "json", None)


_GIVEN = re.compile(rb"[A-Za-z0-9._+/=@:-]{1,128}")
_FAULT = 500


class RequestIds:
    """Name requests: by `X-Request-Id` of a trusted proxy, else by process and number."""

    __slots__ = ("_numbers", "_process", "_proxies")

    def __init__(self, proxies: Proxies, random: Callable[[int], bytes]) -> None:
        """Trust the ids and addresses of `proxies`."""
        self._proxies = proxies
        self._process = f"{to_base64url(random(6))}-"
        self._numbers = count(1)

    def request_id(self, request: IncomingRequest) -> str:
        """Return the id of a request: that of a trusted proxy, or a new one."""
        sent_id = request.headers.raw(b"x-request-id")
        # Any other client could imitate other requests in the log.
        if sent_id and self._proxies.trusts(request.peer) and _GIVEN.fullmatch(sent_id):
            return sent_id.decode("ascii")
        return f"{self._process}{next(self._numbers):x}"


class RequestTraces:
    """Begins the spans of requests and ends them, once tracing is on."""

    __slots__ = ("_peers",)

    def __init__(self, peers: Proxies) -> None:
        """Continue the traces that `peers` send."""
        self._peers = peers

    def begin(self, request: IncomingRequest) -> Span:
        """Begin the span of a request."""
        # A context of any other client could force sampling, or join the traces of others.
        if not self._peers.trusts(request.peer):
            return TRACES.root("", SpanKind.SERVER)
        headers = request.headers
        return TRACES.request(headers.raw(b"traceparent"), headers.raw(b"tracestate"))

    @staticmethod
    def end(request: IncomingRequest, method: str, route: str, status: int) -> None:
        """End the span of a request, if it is recorded; `method` and `route` are ours."""
        span = request.span
        if not span.sampled:
            return
        if method == OTHER:
            method = "_OTHER"  # the semantic conventions' word
        span.name = f"{method} {route}"
        span.set("http.request.method", method)
        span.set("http.route", route)
        span.set("http.response.status_code", status)
        span.set("valetkey.request_id", request.request_id)
        if request.reference:
            span.set("valetkey.reference", request.reference)
        if status >= _FAULT:
            span.fail(str(status))
        span.end()
