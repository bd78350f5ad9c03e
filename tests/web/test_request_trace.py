"""Spans of requests: whose trace they continue."""

from ipaddress import ip_network

from tests.support.otlp import recording
from tests.web import ask, refuse, small_app
from valetkey.kernel.tracing import TRACES, current_span
from valetkey.web.exchange import Request, Response
from valetkey.web.router import Route


def test_trace_is_continued_for_trusted_peers_only() -> None:
    traces: dict[str, tuple[str, bool]] = {}

    async def traced(request: Request) -> Response:
        span = current_span()
        traces[request.address] = span.trace_id.hex(), span.sampled
        return Response(200, b"")

    app = small_app(
        [
            Route("/x", {"GET": traced}, refuse),
            Route("/quiet", {"GET": traced}, refuse, quiet=True),
        ],
        traced_peers=[ip_network("10.0.0.0/8")],
    )
    headers = [("traceparent", f"00-{'ab' * 16}-{'cd' * 8}-01")]
    with recording(0.0):
        ask(app, "GET", "/x", headers=headers, peer="10.0.0.1")
        ask(app, "GET", "/x", headers=headers, peer="192.0.2.1")
        ask(app, "GET", "/quiet", headers=headers, peer="10.0.0.2")
        (span,) = TRACES.drain(10)
    assert traces.pop("10.0.0.1") == ("ab" * 16, True)
    assert traces.pop("10.0.0.2") == ("", False)
    ((stranger, sampled),) = traces.values()
    assert (len(stranger), sampled) == (32, False)
    assert stranger != "ab" * 16
    assert span.name == "GET /x"
