"""E43: upgrades of the cluster under load without a failed request."""

import random
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.commit import extract
from bench.growth.fill import Size
from bench.growth.on_postgresql import PostgreSQLDatabase
from bench.ports import free_port
from tests.architecture.tree import ROOT
from tests.reliability.acknowledged.journal import Client, Verdict, acting, wait_for_actions
from tests.reliability.cluster.experiments import BEFORE, PAUSE, begin, look_at_all
from tests.reliability.cluster.faults import serves
from tests.reliability.cluster.machines import OWNER, PASSWORD, Cluster, Machine, cluster, program
from tests.reliability.history import Findings, History, check
from tests.reliability.outcome import Outcome
from tests.support import postgres
from tests.support.wait import wait_until

_TOOL = ROOT / "deploy/postgresql/major_upgrade.py"
_CLOSES = "self._allow(connections=False)\n"
_DATABASES = ("authorization", "resource")
_USERS = 10_000
_PGBOUNCER = """
[databases]
authorization = host={way} port=5000
resource = host={way} port=5000
[pgbouncer]
listen_addr = {way}
listen_port = 6432
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/userlist.txt
admin_users = postgres
pool_mode = transaction
max_client_conn = 500
default_pool_size = 10
logfile = {folder}/pgbouncer.log
"""
_SCHEMA = "src/valetkey/authorization/storage/schema"
_ANSWERED = {"200", "302", "303"}
_PROMISE = (
    "no failed request; nothing acknowledged is lost, no code works twice, no token works 5 s "
    "after its revocation"
)


def rolling_upgrades_behind_haproxy(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Upgrade two nodes in turn from an earlier commit with an earlier schema; `times`.

    The first round begins before the newest migration, each other one before one migration more.
    In every second round `valetkey database migrate` runs before any node is restarted.
    """
    verdict, findings, begun = Verdict(), Findings(), list[str]()
    for number in range(times):
        commit = _before_migration(number)
        begun.append(commit)
        source = _source(folder, commit)
        history = History()
        with cluster(namespaces=False) as made:
            for node in made.nodes:
                node.source = source
                # Versions before do not know it.
                file = node.here / "valetkey.toml"
                file.write_text(file.read_text().replace("revocations_max_age = 5\n", ""))
            these = begin(made, history)
            with acting(these, pause=PAUSE):
                wait_for_actions(these, BEFORE)
                if number % 2:
                    made.nodes[0].source = None
                    made.run("database", "migrate")
                    wait_for_actions(these, BEFORE)
                for node in made.nodes:
                    node.stop()
                    node.source = None
                    node.start()
                    wait_until(lambda: serves(made), "no node is ready", every=0.2)
                    wait_for_actions(these, BEFORE)
            verdict.judge(these)
            look_at_all(these, history)
        findings.add(check(history.operations))
    failed = {name: count for name, count in verdict.answers.items() if name not in _ANSWERED}
    return Outcome(
        "E43 rolling upgrades behind HAProxy",
        _PROMISE,
        f"{times} upgrades of two nodes, from {', '.join(begun)}; {verdict}; {findings}; "
        f"{verdict.answers.total()} requests, {sum(failed.values())} failed {failed or ''}".strip(),
        verdict.is_good and findings.is_good and not failed,
    )


def _before_migration(number: int) -> str:
    """Return the commit before the newest migration, or before one that is older by `number`."""
    added = _git("log", "--format=%h", "--diff-filter=A", "--", _SCHEMA).decode().split()
    return _git("rev-parse", "--short", f"{added[number]}^").decode().strip()


def _source(folder: Path, commit: str) -> Path:
    """Write the source of a commit to a folder; return the one to import from."""
    made = folder / commit
    extract(commit, made, "src")
    return made / "src"


def _git(*arguments: str) -> bytes:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True).stdout


def major_upgrades_of_postgresql(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Move both databases from PostgreSQL 15 under Patroni to 18 with the tool of the guide.

    Then once more with a mistake: one of two poolers is forgotten, and nobody closes the old
    databases. The checker has to find it.
    """
    verdict, findings = Verdict(), Findings()
    pauses: list[str] = []
    for _ in range(times):
        # A token of one cluster is unknown to the next.
        history = History()
        pauses += _move(folder, verdict, history)
        findings.add(check(history.operations))
    missed, unfenced = Verdict(), History()
    _move(folder, missed, unfenced, mistaken=True)
    caught = missed.lost + missed.twice + _violations(check(unfenced.operations))
    failed = {name: count for name, count in verdict.answers.items() if name not in _ANSWERED}
    counts = (
        f"{times} moves of two databases with {_USERS} users, requests waited for "
        f"{', '.join(pauses)}; {verdict}; {findings}; {verdict.answers.total()} requests, "
        f"{sum(failed.values())} failed {failed or ''}".strip()
    )
    return Outcome(
        "E43 major upgrade of PostgreSQL, 15 to 18",
        f"{_PROMISE}; a forgotten pooler without a closed database is found",
        f"{counts}; with the mistake {caught} violations found",
        verdict.is_good and findings.is_good and not failed and caught > 0,
    )


def _violations(findings: Findings) -> int:
    return sum(map(len, (findings.stale, findings.resurrected, findings.lost, findings.twice)))


def _move(folder: Path, verdict: Verdict, history: History, *, mistaken: bool = False) -> list[str]:
    """Move both databases of a new cluster under load; return the seconds of each pause."""
    pauses: list[str] = []
    with cluster(namespaces=False) as made:
        for machine, node in zip(made.machines, made.nodes, strict=False):
            _pool(made, machine)
            file, way = node.here / "valetkey.toml", made.way(machine)
            file.write_text(file.read_text().replace(f"@{way}:5000/", f"@{way}:6432/"))
        these = begin(made, history)
        PostgreSQLDatabase(_old(made, "authorization")).fill(Size(_USERS, _USERS, 50))
        with _new_server() as new:
            tool = _Tool(made, new, _mistaken(folder) if mistaken else _TOOL)
            with acting(these, pause=PAUSE):
                for name in _DATABASES[: 1 if mistaken else 2]:
                    tool.prepare(name)
                    wait_for_actions(these, BEFORE)
                    pauses.append(tool.switch(name, made.machines[: 1 if mistaken else 2]))
                    # With the mistake some clients lose their grants, and do nothing any more.
                    _wait_for_some(these) if mistaken else wait_for_actions(these, BEFORE)
            verdict.judge(these)
            look_at_all(these, history)
            for node in made.nodes:
                node.stop()
    return pauses


def _wait_for_some(these: Sequence[Client]) -> None:
    """Wait until these clients together have done as much as each alone does elsewhere."""

    def count() -> int:
        return sum(len(client.done) for client in these)

    goal = count() + BEFORE * len(these)
    wait_until(lambda: count() >= goal, "nothing is acknowledged any more")


def _old(made: Cluster, name: str) -> str:
    """Return how a superuser reaches a database of the cluster's primary."""
    return f"postgresql://postgres:{OWNER}@{made.the_primary().address}:5432/{name}"


def _pool(made: Cluster, machine: Machine) -> None:
    """Run a PgBouncer on a machine, between its node and the way to the primary."""
    (machine.folder / "userlist.txt").write_text(f'"postgres" "{OWNER}"\n"valetkey" "{PASSWORD}"\n')
    file = machine.folder / "pgbouncer.ini"
    file.write_text(_PGBOUNCER.format(way=made.way(machine), folder=machine.folder))
    machine.start(program("pgbouncer"), "-q", str(file), user=made.user)


@contextmanager
def _new_server() -> Generator[tuple[str, Path]]:
    """Run a PostgreSQL 18 with the role of Valetkey; yield its URL and the folder of programs."""
    port = free_port()
    with (
        postgres.newest() as programs,
        postgres.own_server({"listen_addresses": "127.0.0.1", "port": f"{port}"}) as folder,
    ):
        with psycopg.connect(f"{postgres.url(folder, 'postgres')}&port={port}") as raw:
            raw.execute(b"CREATE ROLE postgres SUPERUSER LOGIN")
        url = f"postgresql://postgres@127.0.0.1:{port}"
        with psycopg.connect(f"{url}/postgres", autocommit=True) as raw:
            raw.execute(b"ALTER ROLE valetkey RENAME TO initial")
            raw.execute(f"CREATE ROLE valetkey LOGIN PASSWORD '{PASSWORD}'".encode())
            raw.execute(b"GRANT pg_monitor TO valetkey")
            for name in _DATABASES:
                raw.execute(f'CREATE DATABASE "{name}" OWNER valetkey'.encode())
        yield url, programs


def _mistaken(folder: Path) -> Path:
    """Write a copy of the tool that leaves the old database open."""
    text = _TOOL.read_text()
    assert text.count(_CLOSES) == 1
    file = folder / "mistaken.py"
    file.write_text(text.replace(_CLOSES, "return\n"))
    return file


@dataclass
class _Tool:
    """The commands of the guide."""

    made: Cluster
    new: tuple[str, Path]
    file: Path

    def prepare(self, name: str) -> None:
        """Have the new database follow."""
        self._run("prepare", name, "--programs", str(self.new[1]))

    def switch(self, name: str, machines: list[Machine]) -> str:
        """Switch the poolers of these machines over; return how long requests waited."""
        ways = [self.made.way(machine) for machine in machines]
        consoles = [f"postgresql://postgres:{OWNER}@{way}:6432/pgbouncer" for way in ways]
        port = self.new[0].rpartition(":")[2]
        files = " ".join(str(machine.folder / "pgbouncer.ini") for machine in machines)
        point = f"sed -i '/^{name} =/s/=.*/= host=127.0.0.1 port={port}/' {files}"
        poolers = [word for console in consoles for word in ("--pooler", console)]
        output = self._run("switch", name, *poolers, "--point", point)
        match = re.search(r"waited for ([0-9.]+ s)", output)
        assert match is not None, output
        return match[1]

    def _run(self, command: str, name: str, *more: str) -> str:
        urls = ("--old", _old(self.made, name), "--new", f"{self.new[0]}/{name}")
        done = subprocess.run(
            (sys.executable, str(self.file), command, *urls, *more),
            capture_output=True,
            text=True,
            check=False,
        )
        # With the mistake the comparison may find it too.
        assert done.returncode == 0 or self.file != _TOOL, done.stderr
        return done.stdout
