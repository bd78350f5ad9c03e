"""Metrics of a real installation: all workers of both servers, added up."""

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import requests
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from tests.stories.processes.serving import Serving, configure, serving
from tests.support.wait import CEILING, wait_until
from valetkey.kernel.metrics import CATALOGUE, PREFIX

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
_SIZE = "database_size_bytes"
TOKEN = "a-token-of-whoever-scrapes"


@contextmanager
def _scraped(here: Path, database: str, host: str = "127.0.0.1") -> Generator[Serving]:
    config = configure(here, database, workers=2)
    (here / "scrape-token").write_text(f"{TOKEN}\n")
    config.write_text(
        config.read_text() + f'[metrics]\nlisten = "{host}:0"\nbearer_token_file = "scrape-token"\n'
    )
    with serving(here, database) as servers:
        yield servers


def _scrape(servers: Serving, accept: str = OPENMETRICS) -> list[Metric]:
    answer = requests.get(
        servers.metrics,
        headers={"Authorization": f"Bearer {TOKEN}", "Accept": accept},
        timeout=CEILING,
    )
    assert answer.status_code == 200
    read = read_openmetrics if "openmetrics" in answer.headers["content-type"] else read_text
    return list(read(answer.text))


def _sum(servers: Serving, name: str, **labels: str) -> float:
    """Of all workers, the samples of this name that have these labels."""
    series = _series(servers, name)
    return sum(value for sample_labels, value in series if labels.items() <= sample_labels.items())


def _series(servers: Serving, name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (sample.labels, sample.value)
        for family in _scrape(servers)
        for sample in family.samples
        if sample.name == PREFIX + name
    ]


def _up(servers: Serving) -> dict[tuple[str, str], float]:
    return {
        (labels["server"], labels["worker"]): value
        for labels, value in _series(servers, "worker_up")
    }


def test_one_scrape_has_the_metrics_of_all_workers(database_url: str, tmp_path: Path) -> None:
    with _scraped(tmp_path, database_url) as servers:
        for _ in range(12):
            # A connection each, so that both workers have some.
            assert servers.ask(grant_type="client_credentials").ok
        wrong = servers.ask(grant_type="password", username="ada", password="no")
        assert wrong.status_code == 400
        assert servers.redeem(servers.code("phone"), "phone").ok
        requests.get(f"{servers.api}/v2/notes", timeout=CEILING)
        requests.request("PURGE", f"{servers.api}/v2/notes", timeout=CEILING)

        issued = {"grant_type": "client_credentials", "client_type": "confidential"}
        assert _sum(servers, "tokens_issued_total", **issued) == 12
        assert _sum(servers, "tokens_issued_total", client_type="public") == 1
        assert _sum(servers, "refusals_total", check="password.wrong") == 1
        assert _sum(servers, "sign_ins_total", method="pwd", result="failed") == 1
        assert _sum(servers, "sign_ins_total", method="pwd", result="succeeded") == 1
        assert _sum(servers, "audit_events_total", event="code.redeemed") == 1
        token = {"route": "/oauth/token", "method": "POST"}
        assert _sum(servers, "http_requests_total", **token) == 14
        assert _sum(servers, "http_requests_total", **token, status="400") == 1
        took = {"name": "http_request_duration_seconds_count", "route": "/oauth/token"}
        assert _sum(servers, **took) == 14
        assert _sum(servers, **took, outcome="refused") == 1
        assert _sum(servers, **took, outcome="ok") == 13
        assert _sum(servers, "http_requests_total", server="resource", method="GET") == 1
        assert _sum(servers, "http_requests_total", server="resource", method="other") == 1
        assert _up(servers) == {
            ("authorization", "0"): 1,
            ("authorization", "1"): 1,
            ("resource", "0"): 1,
        }
        # What the database knows is told once for each server, not once for each worker.
        ages = wait_until(lambda: _series(servers, "signing_key_age_seconds"))
        assert [labels["algorithm"] for labels, _ in ages] == ["ES256"]
        wait_until(lambda: len({labels["server"] for labels, _ in _series(servers, _SIZE)}) == 2)
        text = _scrape(servers, "text/plain")
        assert {family.name for family in text} >= {PREFIX + "worker_up", PREFIX + "build_info"}
        names = {PREFIX + name for name in CATALOGUE}
        assert {family.name for family in _scrape(servers)} <= names
        for family in text:
            series = Counter((s.name, frozenset(s.labels.items())) for s in family.samples)
            assert set(series.values()) == {1}, family.name


def _is_stopped(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task").glob("*/status")
    return all("\nState:\tT" in task.read_text() for task in tasks)


def test_scrape_survives_workers_that_hang_and_die(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with _scraped(tmp_path, f"sqlite:///{tmp_path}/a.db", "0.0.0.0") as servers:
        hung, killed = servers.workers()
        # Callers that say nothing keep some threads of each worker.
        host, _, port = servers.metrics.split("/")[2].partition(":")
        with ExitStack() as idle:
            for _ in range(12):
                idle.enter_context(socket.create_connection((host, int(port))))
            begun = time.monotonic()
            assert set(_up(servers).values()) == {1}
            # Less than one of them is waited for.
            assert time.monotonic() - begun < 2
            assert set(_up(servers).values()) == {1}
            os.kill(hung, signal.SIGSTOP)
            try:
                # Until then a thread of it may still accept the connection, and never answer.
                wait_until(lambda: _is_stopped(hung))
                assert sorted(_up(servers).values()) == [0, 1, 1]
            finally:
                os.kill(hung, signal.SIGCONT)
        wait_until(lambda: set(_up(servers).values()) == {1})
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: killed not in servers.workers())
        wait_until(lambda: set(_up(servers).values()) == {1})

        assert requests.get(servers.metrics, timeout=CEILING).status_code == 401
        for scheme in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer"):
            headers = {"Authorization": scheme}
            answer = requests.get(servers.metrics, headers=headers, timeout=CEILING)
            assert (answer.status_code, answer.content) == (401, b"")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        elsewhere = servers.metrics.replace("/metrics", "/")
        assert requests.get(elsewhere, headers=headers, timeout=CEILING).status_code == 404
        assert requests.post(servers.metrics, headers=headers, timeout=CEILING).status_code == 405
        # More often than there are threads that answer.
        for version in ("x", "2.x", "9" * 5000, "1.0.0;escaping=x") * 2:
            assert _scrape(servers, f"application/openmetrics-text;version={version}")

        # A worker that does not start takes no metrics from the one that it was to replace.
        (tmp_path / "a.db").rename(tmp_path / "gone.db")
        servers.process.send_signal(signal.SIGHUP)
        output = ""

        def failed() -> bool:
            nonlocal output
            output += capfd.readouterr().err
            return "reload.failed" in output

        wait_until(failed)
        (tmp_path / "gone.db").rename(tmp_path / "a.db")
        assert set(_up(servers).values()) == {1}

        # On loopback no token would be needed, but the socket stays where it was.
        output, config = "", tmp_path / "valetkey.toml"
        text = config.read_text().replace('bearer_token_file = "scrape-token"', "")
        config.write_text(text.replace("0.0.0.0:0", "127.0.0.1:0"))
        servers.process.send_signal(signal.SIGHUP)
        wait_until(failed)
        assert "needs a restart: metrics.listen" in output
        assert requests.get(servers.metrics, timeout=CEILING).status_code == 401
