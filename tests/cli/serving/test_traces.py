"""Traces of both servers at a real OTLP receiver: what they hold, and what becomes of failures."""

import json
import socket
from pathlib import Path
from time import monotonic

import pytest
import requests

from tests.cli.running import valetkey
from tests.stories.processes.serving import configure, serving
from tests.support.otlp import Received, Receiver, otlp_receiver, recording
from tests.support.wait import CEILING, wait_until
from valetkey.cli.serving.trace_export import begin
from valetkey.config.sections.serving import TraceSettings
from valetkey.config.settings import Settings
from valetkey.kernel import metrics
from valetkey.kernel.tracing import TRACES, SpanKind

TRACE, PARENT = "ab" * 16, "cd" * 8


def _children(heard: Receiver, parent: Received) -> set[str]:
    same = [span for span in heard.spans if span.trace_id == parent.trace_id]
    return {span.name for span in same if span.parent == parent.span_id}


def test_trace_connects_request_statements_password_hash_and_other_server(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with otlp_receiver() as heard:
        # The first batch is refused for now, and sent again.
        heard.statuses.append(503)
        file = configure(tmp_path, database_url, workers=2)
        text = file.read_text().replace('level = "warning"', 'level = "info"')
        file.write_text(
            f'{text}[metrics]\nlisten = "127.0.0.1:0"\n[traces]\nendpoint = "{heard.url}"\n'
            'sampling = 1.0\ncontinue_from = ["127.0.0.1"]\nservice_name = "shop"\n'
        )
        with serving(tmp_path, database_url) as servers:
            token = servers.redeem(servers.code()).json()["access_token"]
            context = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
            bearer = {"authorization": f"Bearer {token}"}
            url = f"{servers.api}/v2/notes?limit=canary"
            requests.get(url, headers=context | bearer, timeout=CEILING)
            unsampled = {"traceparent": f"00-{'ef' * 16}-{PARENT}-00"}
            response = requests.post(
                f"{servers.auth}/oauth/token", headers=unsampled, timeout=CEILING
            )
            wait_until(lambda: heard.named("POST /oauth/token"))
            openmetrics = {"accept": "application/openmetrics-text"}
            metrics_text = requests.get(servers.metrics, headers=openmetrics, timeout=CEILING).text
        # What a server has recorded when it is told to stop arrives.
        (notes,) = heard.named("GET /v2/notes")
    assert (notes.service, notes.trace_id, notes.parent) == ("shop-resource", TRACE, PARENT)
    assert (notes.state, notes.kind) == ("vendor=1", SpanKind.SERVER)
    assert "canary" not in str(heard.spans)

    redeemed = heard.named("POST /oauth/token")[-1]
    assert (redeemed.service, redeemed.parent) == ("shop-authorization", "")
    assert redeemed.attributes["http.response.status_code"] == 200
    assert "transaction write" in _children(heard, redeemed)
    written = next(
        span for span in heard.named("transaction write") if span.parent == redeemed.span_id
    )
    assert _children(heard, written) == {"statements"}
    assert 0 < written.nanoseconds < redeemed.nanoseconds
    assert any("offload passwords" in _children(heard, span) for span in heard.spans)

    # The resource server asks for the keys; the authorization server continues that trace.
    fetched = heard.named("GET /oauth/jwks")[0]
    caller = next(span for span in heard.spans if span.span_id == fetched.parent)
    assert (caller.service, caller.trace_id) == ("shop-resource", fetched.trace_id)
    assert (caller.name, caller.kind) == ("GET", SpanKind.CLIENT)

    # One id in trace, log, metrics and decision record.
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[:1] == "{"]
    of_span = {line.get("span_id"): line for line in lines if line["event"] == "request"}
    line = of_span[redeemed.span_id]
    assert line["trace_id"] == redeemed.trace_id
    assert line["request_id"] == redeemed.attributes["valetkey.request_id"]
    assert f'# {{trace_id="{redeemed.trace_id}"}}' in metrics_text
    refused = next(line for line in lines if line.get("trace_id") == "ef" * 16)
    assert refused["reference"] == response.json()["reference"]
    assert not any(span.trace_id == "ef" * 16 for span in heard.spans)


@pytest.mark.parametrize(
    ("statuses", "rejects", "counted"),
    [
        ([429], 0, {"exported": 3}),
        ([400], 0, {"failed": 3}),
        ([], 2, {"exported": 1, "rejected": 2}),
    ],
)
def test_response_of_the_collector_decides_how_spans_are_counted(
    statuses: list[int], rejects: int, counted: dict[str, int]
) -> None:
    before = _counted()
    with recording(), otlp_receiver() as heard:
        heard.statuses += statuses
        heard.rejects = rejects
        settings = Settings(traces=TraceSettings(endpoint=heard.url, sampling=1.0))
        # Before the exporter starts, so that they are one batch.
        for _ in range(3):
            TRACES.root("x", SpanKind.INTERNAL).end()
        stop = begin(settings, "authorization")
        wait_until(lambda: _since(before) == counted)
        stop()


def test_collector_that_hangs_delays_nothing_and_stop_is_bounded() -> None:
    with recording(), socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen(8)
        endpoint = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        stop = begin(Settings(traces=TraceSettings(endpoint=endpoint, sampling=1.0)), "resource")
        TRACES.root("x", SpanKind.INTERNAL).end()
        accepted, _ = hanging.accept()
        with accepted:
            began = monotonic()
            TRACES.root("x", SpanKind.INTERNAL).end()
            stop()
            assert monotonic() - began < 4


def test_bearer_token_needs_https(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text('[traces]\nendpoint = "http://192.0.2.1:4318"\n')
    token = {"VALETKEY__TRACES__BEARER_TOKEN": "x" * 20}
    ran = valetkey("serve", "authorization", here=tmp_path, environment=token)
    assert ran.code == 2
    assert "https only" in ran.err


def _counted() -> dict[str, float]:
    counts = {labels[0]: number for labels, (number,) in metrics.SPANS_DROPPED.samples()}
    counts["exported"] = sum(number for _, (number,) in metrics.SPANS_EXPORTED.samples())
    return counts


def _since(before: dict[str, float]) -> dict[str, float]:
    increases = {name: number - before.get(name, 0) for name, number in _counted().items()}
    return {name: number for name, number in increases.items() if number}
