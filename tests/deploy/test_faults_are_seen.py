"""Faults of docs/reference/ten-faults.md, caused: log, alert and doctor name each."""

import os
import re
import resource
import signal
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.ports import free_port
from tests.architecture.tree import ROOT
from tests.cli.running import valetkey
from tests.cli.serving.test_tls import certify
from tests.deploy.prometheus import asked, prometheus
from tests.reliability.experiments import frozen
from tests.reliability.faults.full_disk import fill, mounted
from tests.reliability.load import Load, asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.shifted import ShiftedClock
from tests.support import postgres
from tests.support.wait import wait_until

_OFTEN = 0.2
"""Seconds between two questions to Prometheus, which scrapes every two seconds."""
_TIMEOUTS = (
    '[database]\nanswer_timeout = "2s"\nstatement_timeout = "1s"\nlock_timeout = "1s"\n'
    'connect_timeout = "2s"\n'
)


def _rules() -> str:
    """The rules, without the time for which a fault must last."""
    text = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    text = re.sub(r"for: \d+m", "for: 0m", text)
    return text.replace("[10m])) > 600", "[10m])) > 1").replace("_seconds) > 120", "_seconds) > 1")


@dataclass
class Site:
    """A server under load whose metrics are scraped."""

    node: Node
    load: Load
    api: str

    @property
    def log(self) -> str:
        return (self.node.here / "log").read_text(errors="replace")

    def logs(self, event: str, text: str) -> None:
        """Wait until a line of this event has this text."""

        def is_logged() -> bool:
            lines = [line for line in self.log.splitlines() if f'"{event}"' in line]
            return any(text in line for line in lines)

        wait_until(is_logged, f"not logged: {event}, {text}")

    def alerts(self, name: str) -> None:
        """Wait until this alert fires."""

        def fires() -> bool:
            firing = asked(f"{self.api}/alerts")["alerts"]
            return any(alert["labels"]["alertname"] == name for alert in firing)

        wait_until(fires, f"no alert: {name}", every=_OFTEN)

    def restarts(self) -> int:
        """Return how many starts of the worker Prometheus has seen, but for the first."""
        series = "changes(valetkey_process_start_time_seconds[15m])"
        samples = asked(f"{self.api}/query?query={series}")["result"]
        return max((int(sample["value"][1]) for sample in samples), default=0)

    def doctor_says(self, *texts: str) -> None:
        """Run `valetkey doctor` until it has these findings or pieces of advice."""

        def says_all() -> bool:
            ran = valetkey("doctor", "--json", here=self.node.here)
            bad = [finding for finding in ran.json["findings"] if finding["level"] != "ok"]
            sentences = [f"{finding['found']} {finding['next']}" for finding in bad]
            return all(any(text in sentence for sentence in sentences) for text in texts)

        wait_until(says_all, f"doctor does not say: {texts}", every=_OFTEN)


@contextmanager
def _site(
    here: Path,
    *,
    database: str = "sqlite:///a/auth.db",
    more: str = "",
    clock: ShiftedClock | None = None,
) -> Generator[Site]:
    address, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    node = Node(here / "node")
    more = f'[metrics]\nlisten = "{metrics}"\n[fetch]\nallow = ["127.0.0.0/8"]\n{more}'
    configure(node.here, url=f"http://{address}", listen=address, database=database, more=more)
    file = node.here / "valetkey.toml"
    file.write_text(file.read_text().replace('"warning"', '"info"'))
    register(node.here)
    if clock is not None:
        node.environment = clock.environment
    with stopped_in_the_end(node), prometheus(here / "prometheus", metrics, _rules()) as api:
        node.start()
        with asking(address, address, clients=2, pause=0.1) as load:
            wait_until(lambda: load.answers["200"] > 10)
            # What changed before the first scrape is no increase.
            wait_until(lambda: asked(f"{api}/query?query=valetkey_clock_steps_total")["result"])
            yield Site(node, load, api)


def test_full_disk_raises_its_alert(tmp_path: Path) -> None:
    with mounted("24m") as disk, _site(tmp_path, database=f"sqlite:///{disk}/auth.db") as it:
        fill(disk)
        it.logs("request.unavailable", "database or disk is full")
        it.doctor_says("SQLite: database or disk is full")
        it.alerts("ValetkeyDatabaseFailing")
        it.alerts("ValetkeyUnavailable")


def test_frozen_database_raises_its_alert(tmp_path: Path) -> None:
    with postgres.own_server() as server:
        url = postgres.url(server, "postgres")
        with _site(tmp_path, database=url, more=_TIMEOUTS) as it, frozen(server / "data"):
            it.logs("request.unavailable", "no answer within 2 s")
            it.alerts("ValetkeyDatabaseFailing")
            it.doctor_says("connection timeout expired")


def test_lost_standby_raises_its_alert(tmp_path: Path) -> None:
    with postgres.own_server() as server:
        url = postgres.url(server, "postgres")
        with (
            _site(tmp_path, database=url, more=_TIMEOUTS) as it,
            psycopg.connect(url, autocommit=True) as raw,
        ):
            raw.execute(b"ALTER SYSTEM SET synchronous_standby_names = 'gone'")
            raw.execute(b"SELECT pg_reload_conf()")
            it.logs("request.unavailable", "PostgreSQL does not confirm commits")
            it.alerts("ValetkeyDatabaseFailing")
            it.doctor_says("Commits wait for gone, but no such standby is connected")
            raw.execute(b"ALTER SYSTEM RESET synchronous_standby_names")
            raw.execute(b"SELECT pg_reload_conf()")


def test_worker_that_is_killed_repeatedly_raises_its_alert(tmp_path: Path) -> None:
    with _site(tmp_path) as it:
        for kills in range(1, 5):
            (worker,) = wait_until(it.node.workers)
            os.kill(worker, signal.SIGKILL)
            wait_until(lambda worker=worker: it.node.workers() not in ([], [worker]))  # type: ignore[misc]
            # Prometheus does not see a worker that is killed before it was scraped.
            wait_until(lambda kills=kills: it.restarts() == kills, every=_OFTEN)  # type: ignore[misc]
        it.logs("worker.restarting", '"SIGKILL"')
        it.alerts("ValetkeyWorkerRestarts")


def test_failing_mail_and_webhooks_raise_their_alerts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        more = (
            f'[mail]\nhost = "127.0.0.1"\nport = {silent.getsockname()[1]}\ntls = "none"\n'
            'from_address = "login@auth.example"\n'
        )
        with _site(tmp_path, more=more) as it:
            here = it.node.here
            hook = f"http://127.0.0.1:{free_port()}/"
            for command in (
                ("webhook", "create", hook, "--json"),
                ("user", "send-reset", "ada", "--json"),
            ):
                ran = valetkey(*command, here=here)
                assert ran.code == 0, ran.out + ran.err
            it.logs("webhook.undelivered", '"reason"')
            it.alerts("ValetkeyWebhookFailing")
            # Doctor waits for the mail server as long as the server does: 20 seconds.
            it.doctor_says("of a webhook has failed since", "cannot be used: no answer in time")
            it.logs("mail.unsent", "no answer in time")
            it.alerts("ValetkeyMailFailing")


def test_expired_certificate_raises_its_alert(tmp_path: Path) -> None:
    here = tmp_path / "node"
    address, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    node = Node(here)
    tls = 'tls_certificate = "c.pem"\ntls_key = "k.pem"\n'
    configure(here, url=f"https://{address}", listen=address, database="sqlite:///a/auth.db")
    file = here / "valetkey.toml"
    text = file.read_text().replace("[tokens]", f"{tls}[tokens]", 1)
    file.write_text(f'{text}[metrics]\nlisten = "{metrics}"\n')
    certify(here, days=-1)
    register(here)
    with stopped_in_the_end(node), prometheus(tmp_path / "prometheus", metrics, _rules()) as api:
        node.start()
        it = Site(node, Load(address, address), api)
        it.logs("certificate.expiring", '"hours_left":-')
        it.alerts("ValetkeyCertificateExpiring")
        it.doctor_says("has expired")


def test_few_free_descriptors_raise_their_alert(tmp_path: Path) -> None:
    with _site(tmp_path) as it, ExitStack() as idle:
        (worker,) = it.node.workers()
        used = sum(1 for _ in Path(f"/proc/{worker}/fd").iterdir())
        _, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        # A few are left: without any, the metrics cannot be scraped either.
        limit = used + 60
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (limit, hard))
        host, _, port = it.load.address.partition(":")
        for _ in range(limit * 94 // 100 - used):
            idle.enter_context(socket.create_connection((host, int(port))))
        # First the alert, which ends with the connections: the server closes them after 30 seconds.
        it.alerts("ValetkeyDescriptors")
        it.logs("descriptors.low", '"level":"error"')


def test_clock_an_hour_ahead_raises_its_alert(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path / "clock")
    with _site(tmp_path, clock=clock) as it:
        clock.ahead = 3_600
        it.logs("clock.stepped", '"seconds":3')
        it.alerts("ValetkeyClockStepped")
