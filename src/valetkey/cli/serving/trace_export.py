"""Send spans to a collector: OTLP over HTTP, from a thread and a bounded queue."""

import http.client
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from valetkey.config.agreement import is_loopback
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import trust
from valetkey.kernel import metrics
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM, import_lazily, nanoseconds
from valetkey.kernel.tracing import QUEUED, TRACES, Span, SpanKind
from valetkey.web import log

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
    from opentelemetry.proto.common.v1 import common_pb2 as common
    from opentelemetry.proto.trace.v1 import trace_pb2 as traces
else:
    service = import_lazily("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    common = import_lazily("opentelemetry.proto.common.v1.common_pb2")
    traces = import_lazily("opentelemetry.proto.trace.v1.trace_pb2")

_PAUSE = 0.5  # seconds between two looks at the queue
_BATCH = 256
_WITHIN = 5.0  # seconds for each wait for the collector
_FLUSH_WITHIN = 2.0  # seconds of a shutdown
_LONGEST_PAUSE = 30.0  # seconds between two attempts
_ATTEMPTS = 5
_ANSWER_BYTES = 64 * 1024
# To be sent again (OTLP 1.3, "Retryable Response Codes").
_AGAIN = frozenset((429, 502, 503, 504))
_PARENT_KNOWN, _PARENT_ELSEWHERE = 0x100, 0x200  # SpanFlags of OTLP


class _Failed(Exception):
    """The collector did not take the batch; `again` says whether to send it once more."""

    def __init__(self, cause: str, *, again: bool) -> None:
        super().__init__(cause)
        self.again = again


def require(settings: Settings) -> None:
    """Raise OperatorError if the settings want traces that this installation cannot send."""
    traces_settings = settings.traces
    if not traces_settings.endpoint:
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise OperatorError(
            "traces need a package: pip install 'valetkey[otel]'", "traces.endpoint"
        )
    parts = urlsplit(traces_settings.endpoint)
    if (
        traces_settings.bearer_token
        and parts.scheme == "http"
        and not is_loopback(parts.hostname or "")
    ):
        raise OperatorError("a bearer token is sent by https only", "traces.endpoint")


def begin(settings: Settings, server: str) -> Callable[[], None]:
    """Start exporting spans of this process, if the settings say so; return what ends it.

    Ending takes at most two seconds; the number of spans left then is logged. Raises OperatorError.
    """
    require(settings)
    traces_settings = settings.traces
    if not traces_settings.endpoint:
        return _nothing
    context = None
    if traces_settings.endpoint.startswith("https:"):
        directory = settings.source.directory
        context = trust(directory / traces_settings.ca_file if traces_settings.ca_file else None)
    token = traces_settings.bearer_token.reveal() if traces_settings.bearer_token else ""
    resource = {
        "service.name": f"{traces_settings.service_name}-{server}",
        "service.version": version("valetkey"),
        "service.instance.id": SYSTEM.random(16).hex(),
    }
    exporter = Exporter(_Collector(traces_settings.endpoint, context, token), resource)
    TRACES.begin(traces_settings.sampling, nanoseconds, SYSTEM.random)
    exporter.start()
    return exporter.stop


def _nothing() -> None:
    """Do nothing."""


class Exporter(threading.Thread):
    """Takes spans from the queue and sends them in batches until it is stopped."""

    def __init__(self, collector: "_Collector", resource: Mapping[str, str]) -> None:
        """Send to `collector`; `resource` describes this process."""
        super().__init__(name="traces", daemon=True)
        self._collector = collector
        self._resource = _attributes(resource)
        self._stopping = threading.Event()
        self._until = float("inf")

    def run(self) -> None:
        """Export until stopped, then export the rest."""
        while not self._stopping.wait(_PAUSE):
            self._export_all()
        self._export_all()
        self._collector.close()

    def stop(self) -> None:
        """Export the queue, for at most two seconds; log how many spans are left."""
        self._until = monotonic() + _FLUSH_WITHIN
        self._stopping.set()
        self.join(_FLUSH_WITHIN)
        if left := len(TRACES.drain(QUEUED)):
            log.warning("traces.dropped", count=left)

    def _export_all(self) -> None:
        while monotonic() < self._until and (batch := TRACES.drain(_BATCH)):
            self._export(batch)

    def _export(self, batch: Sequence[Span]) -> None:
        body = encode(batch, self._resource)
        pause = 1.0
        for attempt in range(1, 1 + _ATTEMPTS):
            try:
                rejected = self._deliver(body)
            except _Failed as failure:
                log.throttled("warning", "traces.not_exported", str(failure))
                stopping = self._stopping.is_set()
                if not failure.again or stopping or attempt == _ATTEMPTS:
                    metrics.SPANS_DROPPED.add("failed", amount=len(batch))
                    return
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                metrics.SPANS_EXPORTED.add(amount=len(batch) - rejected)
                if rejected:
                    metrics.SPANS_DROPPED.add("rejected", amount=rejected)
                return

    def _deliver(self, body: bytes) -> int:
        """Send one batch; return how many of its spans the collector rejected."""
        try:
            status, answer = self._collector.send(body)
        except OSError as failure:
            raise _Failed(failure.strerror or type(failure).__name__, again=True) from failure
        except http.client.HTTPException as failure:
            raise _Failed(type(failure).__name__, again=True) from failure
        if status != HTTPStatus.OK:
            raise _Failed(f"status {status}", again=status in _AGAIN)
        try:
            response: Any = service.ExportTraceServiceResponse.FromString(answer)
        except Exception:  # noqa: BLE001 - protobuf's exception has no place in its interface
            return 0
        return max(0, min(int(response.partial_success.rejected_spans), _BATCH))


class _Collector:
    """The collector's address, with one connection that is kept open."""

    def __init__(self, endpoint: str, context: ssl.SSLContext | None, token: str) -> None:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
        self._connection = (
            http.client.HTTPConnection(host, port, timeout=_WITHIN)
            if context is None
            else http.client.HTTPSConnection(host, port, timeout=_WITHIN, context=context)
        )
        self._headers = {"content-type": "application/x-protobuf", "user-agent": "valetkey"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    def send(self, body: bytes) -> tuple[int, bytes]:
        """POST to /v1/traces; return status and body. Raises OSError and HTTPException."""
        try:
            self._connection.request("POST", "/v1/traces", body, self._headers)
            response = self._connection.getresponse()
            answer = response.read(_ANSWER_BYTES)
            if not response.isclosed():
                self._connection.close()
            return response.status, answer
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def encode(batch: Sequence[Span], resource: "Sequence[common.KeyValue]") -> bytes:
    """Return the spans as an OTLP request."""
    export = service.ExportTraceServiceRequest()
    of_process = export.resource_spans.add()
    of_process.resource.attributes.extend(resource)
    scope = of_process.scope_spans.add()
    scope.scope.name = "valetkey"
    scope.spans.extend(_encoded(span) for span in batch)
    encoded: bytes = export.SerializeToString()
    return encoded


def _encoded(span: Span) -> "traces.Span":
    remote = span.kind is SpanKind.SERVER and span.parent
    encoded = traces.Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent,
        trace_state=span.state,
        flags=1 | _PARENT_KNOWN | (_PARENT_ELSEWHERE if remote else 0),
        name=span.name,
        kind=traces.Span.SpanKind.ValueType(span.kind),
        start_time_unix_nano=span.began,
        # The clock may be set back meanwhile.
        end_time_unix_nano=max(span.began, span.ended),
        attributes=_attributes(span.attributes),
    )
    if span.failure:
        encoded.status.code = traces.Status.STATUS_CODE_ERROR
        encoded.attributes.extend(_attributes({"error.type": span.failure}))
    return encoded


def _attributes(pairs: Mapping[str, str | int]) -> "list[common.KeyValue]":
    return [
        common.KeyValue(
            key=name,
            value=common.AnyValue(int_value=value)
            if isinstance(value, int)
            else common.AnyValue(string_value=value),
        )
        for name, value in pairs.items()
    ]
