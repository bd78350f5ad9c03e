"""The processes that answer: what they do without until somebody needs it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.support import postgres
from tests.support.wait import CEILING, wait_until

LARGE = {
    "aiosmtplib",
    "fido2",
    "jsonschema_rs",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "segno",
    "structlog",
}


@pytest.mark.parametrize(
    ("server", "without"), [("authorization", LARGE | {"httpx2"}), ("resource", LARGE | {"jinja2"})]
)
def test_worker_starts_without_rarely_needed_modules(server: str, without: set[str]) -> None:
    program = f"import sys, valetkey.cli.serving.{server}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert without.isdisjoint(name.partition(".")[0] for name in done.stdout.split())


def test_server_waits_for_its_database_at_start(own_postgres: Path, tmp_path: Path) -> None:
    url = postgres.url(own_postgres, "postgres")
    postgres.stop(own_postgres / "data")
    node = Node(tmp_path / "node")
    address = f"127.0.0.1:{free_port()}"
    configure(node.here, url=f"http://{address}", listen=address, database=url)
    with stopped_in_the_end(node), ThreadPoolExecutor(1) as threads:
        starting = threads.submit(node.start)
        wait_until(lambda: "database.awaited" in _said(node.here / "log"))
        postgres.start(own_postgres / "data", own_postgres)
        starting.result(CEILING)
    short = '[database]\nstart_timeout = "1s"\n'
    configure(node.here, url=f"http://{address}", listen=address, database=url, more=short)
    postgres.stop(own_postgres / "data")
    ended = valetkey("serve", "authorization", here=node.here)
    postgres.start(own_postgres / "data", own_postgres)
    assert ended.code == 1
    assert "the database cannot be used" in ended.err


def _said(log: Path) -> str:
    return log.read_text() if log.exists() else ""


def test_open_file_limit_is_raised_and_connections_fitted_to_it(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    configure(tmp_path, url=f"http://{address}", listen=address, database="sqlite:///a/auth.db")
    command = f"ulimit -S -n 256; ulimit -H -n 300; exec {PROGRAM} serve authorization"
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        process.terminate()
        _, log = process.communicate(timeout=CEILING)
    assert '"event":"limits.connections"' in log
    assert '"used":172' in log


def test_cause_of_a_crash_loop_is_in_the_log_and_in_doctor(tmp_path: Path) -> None:
    here = tmp_path / "node"
    node, address = Node(here), f"127.0.0.1:{free_port()}"
    api = f'[resource]\nurl = "http://127.0.0.1:{free_port()}"\nobjects = "objects"\n'
    database = f"sqlite:///{here}/a.db"
    configure(here, url=f"http://{address}", listen=address, database=database, more=api)
    file = here / "objects" / "tasks.json"
    file.parent.mkdir()
    file.write_text(
        '{"type": "object", "properties": {"title": {"type": "string"}},'
        ' "x-valetkey": {"reads": "read your tasks", "writes": "change your tasks"}}'
    )
    register(here)
    with stopped_in_the_end(node):
        node.start()
        file.write_text("{")
        os.kill(node.workers()[0], signal.SIGKILL)
        events = wait_until(lambda: [event for event in _events(here / "log") if _failed(event)])
        assert events[0]["server"] == "authorization"
        assert "tasks.json" in str(events[0]["reason"])
        findings = json.loads(valetkey("doctor", "--json", here=here).out)["findings"]
        texts = [finding["found"] for finding in findings if finding["about"] == "configuration"]
        assert ["tasks.json" in text for text in texts] == [True]
        # Nothing is wrong with the database.
        about = [finding["about"] for finding in findings if finding["level"] == "error"]
        assert "authorization database" not in about


def _failed(event: Mapping[str, object]) -> bool:
    return event["event"] == "worker.failed"


def _events(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in _said(log).splitlines() if line.startswith("{")]
