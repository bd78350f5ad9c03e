"""An OTLP receiver: a real HTTP server that decodes traces by the official protobuf."""

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

from valetkey.kernel.runtime import SYSTEM, nanoseconds
from valetkey.kernel.tracing import QUEUED, TRACES

_TIMES = ("start_time_unix_nano", "end_time_unix_nano")
_IDS = {"valetkey.request_id", "valetkey.reference"}


@dataclass(frozen=True, slots=True)
class Received:
    """A span as it arrived; ids are hexadecimal."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent: str
    state: str
    kind: int
    nanoseconds: int
    failed: bool
    attributes: Mapping[str, str | int]


@dataclass(slots=True)
class Receiver:
    """What arrived at a receiver, and what it answers."""

    url: str = ""
    spans: list[Received] = field(default_factory=list[Received])
    bodies: list[bytes] = field(default_factory=list[bytes])
    statuses: list[int] = field(default_factory=list[int])
    """Answers to the next requests; 200 once they are used up."""
    rejects: int = 0
    authorization: str = ""

    def named(self, name: str) -> Sequence[Received]:
        """The spans of this name so far."""
        return [span for span in self.spans if span.name == name]


@contextmanager
def recording(ratio: float = 1.0) -> Generator[None]:
    """Record spans of this process for the duration of the block."""
    # One that began in an earlier block may have ended after it.
    TRACES.drain(QUEUED)
    TRACES.begin(ratio, nanoseconds, SYSTEM.random)
    try:
        yield
    finally:
        TRACES.on = False
        TRACES.drain(QUEUED)


@contextmanager
def otlp_receiver() -> Generator[Receiver]:
    """Receive traces on a free port for the duration of the block."""
    heard = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["content-type"] == "application/x-protobuf"
            heard.authorization = self.headers["authorization"] or ""
            body = self.rfile.read(int(self.headers["content-length"]))
            status = heard.statuses.pop(0) if heard.statuses else 200
            if status == 200:
                heard.bodies.append(body)
                heard.spans += _decoded(body)
            answer: Any = service.ExportTraceServiceResponse()
            answer.partial_success.rejected_spans = heard.rejects
            content = answer.SerializeToString()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    heard.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _decoded(body: bytes) -> list[Received]:
    request: Any = service.ExportTraceServiceRequest.FromString(body)
    return [
        Received(
            service=str(_plain(process.resource.attributes)["service.name"]),
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            state=span.trace_state,
            kind=span.kind,
            nanoseconds=span.end_time_unix_nano - span.start_time_unix_nano,
            failed=span.status.code == 2,
            attributes=_plain(span.attributes),
        )
        for process in request.resource_spans
        for scope in process.scope_spans
        for span in scope.spans
    ]


def without_random(body: bytes) -> bytes:
    """Return the request without ids and times, whose bytes could be any short word."""
    request: Any = service.ExportTraceServiceRequest.FromString(body)
    for process in request.resource_spans:
        for attribute in process.resource.attributes:
            if attribute.key == "service.instance.id":
                attribute.ClearField("value")
        for scope in process.scope_spans:
            for span in scope.spans:
                for name in ("trace_id", "span_id", "parent_span_id", *_TIMES):
                    span.ClearField(name)
                for attribute in span.attributes:
                    if attribute.key in _IDS:
                        attribute.ClearField("value")
                for event in span.events:
                    event.ClearField("time_unix_nano")
    return bytes(request.SerializeToString())


def _plain(attributes: Any) -> dict[str, str | int]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in attributes
    }
