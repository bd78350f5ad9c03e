"""Spans and their trace context (W3C Trace Context), and how their number is bounded."""

import os
import time

import pytest

from tests.support.otlp import recording
from valetkey.kernel import metrics, tracing
from valetkey.kernel.tracing import OFF, QUEUED, TRACES, SpanKind, Traces

TRACE, PARENT = "ab" * 16, "cd" * 8


@pytest.mark.parametrize(
    ("said", "sampled"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-03", True),
        (f"cc-{TRACE}-{PARENT}-01-later", True),
    ],
)
def test_valid_traceparent_is_continued(said: str, sampled: bool) -> None:
    with recording(0.0):
        span = TRACES.request(said.encode(), b"vendor=1,other=2")
        assert (span.trace_id.hex(), span.parent.hex()) == (TRACE, PARENT)
        assert (span.sampled, span.state) == (sampled, "vendor=1,other=2")
        flags = "01" if sampled else "00"
        assert span.headers() == {
            "traceparent": f"00-{TRACE}-{span.span_id.hex()}-{flags}",
            "tracestate": "vendor=1,other=2",
        }


@pytest.mark.parametrize(
    "said",
    [
        "",
        "00",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-0",
        f" 00-{TRACE}-{PARENT}-01",
    ],
)
def test_invalid_traceparent_begins_new_trace(said: str) -> None:
    with recording():
        span = TRACES.request(said.encode(), b"vendor=1")
        assert span.trace_id.hex() != TRACE
        assert (span.parent, span.state) == (b"", "")
        assert len(span.trace_id) == 16
        assert len(span.span_id) == 8


@pytest.mark.parametrize("state", [b"x" * 513, b"a=\xff", b"a=\r\nb"])
def test_invalid_tracestate_is_dropped(state: bytes) -> None:
    with recording():
        span = TRACES.request(f"00-{TRACE}-{PARENT}-01".encode(), state)
        assert (span.trace_id.hex(), span.state) == (TRACE, "")


def test_sampling_is_decided_once_for_each_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    # A queue of its own: threads of other tests may still end spans in that of the process.
    traces = Traces()
    monkeypatch.setattr(tracing, "TRACES", traces)
    traces.begin(0.25, time.time_ns, os.urandom)
    roots = [traces.root("", SpanKind.SERVER) for _ in range(4_000)]
    assert 800 < sum(span.sampled for span in roots) < 1_200
    for span in roots:
        child = span.child("x")
        assert child.sampled == span.sampled
        assert child.trace_id == span.trace_id
        child.end()
        assert (child is span) != span.sampled
    assert len(traces.drain(QUEUED)) == sum(span.sampled for span in roots)


def test_queue_is_bounded_and_drops_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropped() -> float:
        return sum(number for _, (number,) in metrics.SPANS_DROPPED.samples())

    # A queue of its own: threads of other tests may still end spans in that of the process.
    traces = Traces()
    monkeypatch.setattr(tracing, "TRACES", traces)
    traces.begin(1.0, time.time_ns, os.urandom)
    before = dropped()
    for _ in range(QUEUED + 7):
        traces.root("", SpanKind.SERVER).end()
    assert dropped() - before == 7
    assert len(traces.drain(2 * QUEUED)) == QUEUED


def test_nothing_is_recorded_while_tracing_is_off() -> None:
    assert TRACES.call(OFF, "GET", "a.example", 443) is OFF
    with OFF.child("x") as span:
        span.set("name", "value")
        span.fail("failure")
    assert span is OFF
    assert (dict(OFF.attributes), OFF.failure, dict(OFF.headers())) == ({}, "", {})
    assert TRACES.drain(1) == []
