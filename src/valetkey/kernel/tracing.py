"""Spans of requests, transactions and outgoing calls (W3C Trace Context); samples of requests.

A span costs a few microseconds if its trace is sampled, and nothing is recorded otherwise. Spans
wait in a bounded queue for `cli/serving/trace_export.py`. Names and attributes hold only routes,
methods, codes, hosts and ids: never a path, a query, an address, or anything a user entered.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import IntEnum
from time import perf_counter
from types import MappingProxyType
from typing import Protocol, Self

from msgspec import Struct

from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant

Value = str | int

QUEUED = 10_000
"""Finished spans that wait in one process; further ones are dropped and counted."""

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_TRACEPARENT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
# Later versions may append fields (W3C Trace Context section 3.2.4).
_LATER = re.compile(rb"(?!00|ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_TRACESTATE = re.compile(rb"[\x20-\x7e]{1,512}")
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_LOW_BYTES = 8


class SpanKind(IntEnum):
    """The kind of a span, as OTLP numbers it."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


class Span:
    """One timed operation of a trace; a context manager that ends it.

    Without a trace id tracing is off. Unless `sampled`, the span is not recorded and is its own
    child: it only carries the ids to logs and outgoing requests.
    """

    __slots__ = (
        "attributes",
        "began",
        "ended",
        "failure",
        "kind",
        "name",
        "parent",
        "sampled",
        "span_id",
        "state",
        "trace_id",
    )

    def __init__(
        self,
        name: str = "",
        kind: SpanKind = SpanKind.INTERNAL,
        trace_id: bytes = b"",
        parent: bytes = b"",
        state: str = "",
        *,
        sampled: bool = False,
    ) -> None:
        """Begin a span now; `parent` is the id of its parent, `state` the trace's tracestate."""
        self.name = name
        self.kind = kind
        self.trace_id = trace_id
        self.parent = parent
        self.state = state
        self.sampled = sampled
        self.span_id = TRACES.random(8) if trace_id else b""
        self.attributes: dict[str, Value] = {}
        self.failure = ""
        self.began = TRACES.clock() if sampled else 0
        self.ended = 0

    def child(self, name: str, kind: SpanKind = SpanKind.INTERNAL) -> "Span":
        """Begin a span within this one."""
        if not self.sampled:
            return self
        return Span(name, kind, self.trace_id, self.span_id, self.state, sampled=True)

    def set(self, name: str, value: Value) -> None:
        """Set an attribute."""
        if self.sampled:
            self.attributes[name] = value

    def fail(self, failure: str) -> None:
        """Mark the operation as failed, with a type or code."""
        if self.sampled:
            self.failure = failure

    def end(self) -> None:
        """End the span and queue it for export. Any thread may call it."""
        if self.sampled:
            self.ended = TRACES.clock()
            TRACES.enqueue(self)

    def headers(self, *, with_state: bool = True) -> Mapping[str, str]:
        """Return the header fields that continue the trace in another server.

        `with_state` adds `tracestate`, which says more of the caller than servers of others need.
        """
        if not self.trace_id:
            return _NO_HEADERS
        flags = "01" if self.sampled else "00"
        headers = {"traceparent": f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{flags}"}
        if self.state and with_state:
            headers["tracestate"] = self.state
        return headers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self.failure:
            self.fail(kind.__name__)
        self.end()


class Traces:
    """The spans of this process, recorded after `begin`."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self.on = False
        self.clock: Callable[[], int] = int
        self.random: Callable[[int], bytes] = bytes
        self._least = 0
        self._waiting: deque[Span] = deque()

    def begin(self, ratio: float, clock: Callable[[], int], random: Callable[[int], bytes]) -> None:
        """Record this share of the traces that begin here; `clock` gives nanoseconds."""
        self.clock, self.random = clock, random
        self._least = round(ratio * (1 << 8 * _LOW_BYTES))
        self.on = True
        metrics.QUEUE.read_from(lambda: len(self._waiting), "traces")

    def request(self, traceparent: bytes | None, tracestate: bytes | None) -> Span:
        """Begin the span of a request; pass header fields only of clients that are trusted."""
        match = traceparent and (
            _TRACEPARENT.fullmatch(traceparent) or _LATER.fullmatch(traceparent)
        )
        if match:
            trace_id, parent = bytes.fromhex(match[1].decode()), bytes.fromhex(match[2].decode())
            if trace_id != _NO_TRACE and parent != _NO_SPAN:
                valid = tracestate is not None and _TRACESTATE.fullmatch(tracestate)
                state = tracestate.decode() if tracestate is not None and valid else ""
                sampled = bool(int(match[3], 16) & 1)
                return Span("", SpanKind.SERVER, trace_id, parent, state, sampled=sampled)
        return self.root("", SpanKind.SERVER)

    def root(self, name: str, kind: SpanKind) -> Span:
        """Begin a span of a new trace, sampled by the trace's id."""
        if not self.on:
            return OFF
        trace_id = self.random(16)
        sampled = int.from_bytes(trace_id[-_LOW_BYTES:], "big") < self._least
        return Span(name, kind, trace_id, sampled=sampled)

    def call(self, parent: Span, method: str, host: str, port: int) -> Span:
        """Begin the span of an outgoing request, within `parent` or else in a new trace."""
        if parent is OFF:
            span = self.root(method, SpanKind.CLIENT)
        else:
            span = parent.child(method, SpanKind.CLIENT)
        span.set("http.request.method", method)
        span.set("server.address", host)
        span.set("server.port", port)
        return span

    def enqueue(self, span: Span) -> None:
        """Queue a finished span; any thread may call it."""
        if len(self._waiting) < QUEUED:
            self._waiting.append(span)
        else:
            metrics.SPANS_DROPPED.add("queue")

    def drain(self, most: int) -> list[Span]:
        """Remove and return at most `most` finished spans, oldest first."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]


TRACES = Traces()
OFF = Span()
"""The span of all work while tracing is off, and of work that belongs to no request."""


HALF_CLOSED = 1.0
"""Seconds for which a half-closed client that sends nothing more is assumed to still read."""


class Caller(Protocol):
    """A client waiting for its response. Threads read this, the event loop's thread writes it."""

    gone: bool
    """The connection is closed."""

    @property
    def half_closed_at(self) -> float:
        """When the client stopped sending (`time.monotonic`); infinite if it has not.

        The client has closed the connection, or only its own half. All requests of a connection
        share it.
        """
        ...

    request_id: str
    """The id of the request, in every line of the log about it; "" before it is known."""

    complete_at: float
    """When the request was complete (`time.perf_counter`); 0 before."""

    reference: str
    """The reference of the decision record of the request's refusal; "" without one."""

    span: Span
    """The span of the request; OFF without tracing, and for requests that are not traced."""

    patience: float
    """Seconds that the request's work may queue before it is no longer worth starting."""


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The client of the current request; None for the server's own work.

A task that outlives the request that started it sets it to None first.
"""


def current_span() -> Span:
    """Return the span of the current request; OFF for the server's own work."""
    caller = CALLER.get()
    return OFF if caller is None else caller.span


_AT_ONCE = 2_000
_QUEUED = 10_000


class RequestSample(Struct, frozen=True):
    """A successful request of a client; `endpoint` is a path pattern, never a path as sent."""

    client_id: str
    at: Instant
    method: str
    endpoint: str
    status: int
    milliseconds: int
    """From the complete request to the response."""
    grant_type: str = ""
    scope: str = ""
    """The scopes that were granted or used, separated by spaces."""
    request_id: str = ""
    """The id of the request in the log."""


class RequestSamples:
    """Samples waiting to be written, with the keys of those already taken in this interval.

    At most 2,000 are taken in an interval and 10,000 wait; beyond that the oldest are dropped.
    Those not yet written are lost when the process is killed.
    """

    __slots__ = ("_begins", "_ends", "_taken", "_waiting", "every")

    def __init__(self, every: int = 60) -> None:
        """Take a sample every so many seconds; none for 0."""
        self.every = every
        self._begins = self._ends = 0
        self._taken: set[tuple[str, str, str, str]] = set()
        self._waiting: deque[RequestSample] = deque(maxlen=_QUEUED)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def due(
        self, client_id: str, method: str, endpoint: str, at: Instant, grant_type: str = ""
    ) -> bool:
        """Return whether this request is the first of its kind in this interval; call `add` then.

        Called for every successful request.
        """
        if not self.every:
            return False
        if not self._begins <= at < self._ends:
            self._taken.clear()
            self._begins = at - at % self.every
            self._ends = self._begins + self.every
        key = (client_id, method, endpoint, grant_type)
        if key in self._taken or len(self._taken) >= _AT_ONCE:
            return False
        self._taken.add(key)
        return True

    def add(
        self,
        client_id: str,
        method: str,
        endpoint: str,
        at: Instant,
        *,
        status: int = 200,
        grant_type: str = "",
        scope: str = "",
    ) -> None:
        """Queue a sample of the current request."""
        caller = CALLER.get()
        took, request_id = 0.0, ""
        if caller is not None:
            took, request_id = perf_counter() - caller.complete_at, caller.request_id
        milliseconds = min(round(took * 1_000), 1_000_000)
        self._waiting.append(
            RequestSample(
                client_id, at, method, endpoint, status, milliseconds, grant_type, scope, request_id
            )
        )

    def add_samples(self, samples: Sequence[RequestSample]) -> None:
        """Queue samples that another process took."""
        if self.every:
            self._waiting.extend(samples)

    def drain(self, most: int) -> Sequence[RequestSample]:
        """Remove and return at most `most` queued samples, oldest first."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def give_back(self, samples: Sequence[RequestSample]) -> None:
        """Queue samples again, the newest first as far as there is room."""
        room = _QUEUED - len(self._waiting)
        self._waiting.extendleft(tuple(reversed(samples))[:room])
