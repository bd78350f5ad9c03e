"""E18: the disk of PostgreSQL is full, under load; and that of the log."""

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg

from bench.ports import free_port
from tests.cli.running import valetkey
from tests.reliability.acknowledged.journal import (
    Client,
    Verdict,
    acting,
    clients,
    wait_for_actions,
    wait_for_recovery,
)
from tests.reliability.load import asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support import postgres
from tests.support.processes import name
from tests.support.wait import CEILING, wait_until

_BEFORE = 10  # acknowledged actions of each client before the disk is full
_REFUSED = 20  # answers 503 before there is room again
_LONGEST = 5.0  # seconds until each client is served again
_ENOUGH = 10  # rounds, below which the machine may be busy with other tests
_REQUESTS = 1_000  # while the disk of the log is full
_INDEXES = b"""
SELECT count(bt_index_check(c.oid, true)) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid
"""
# 400: a code whose first answer was lost.
_FINE = {"200", "302", "303", "400", "503"}


def full_disk(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Fill the disk under load, and free it; every second time PostgreSQL needs a new log file."""
    verdict = Verdict()
    recovered: list[float] = []
    started: list[float] = []
    unread = 0
    with mounted("160m") as disk, _server(disk) as url:
        address = f"127.0.0.1:{free_port()}"
        node = Node(folder / "node")
        configure(node.here, url=f"http://{address}", listen=address, database=url)
        register(node.here, rotates=True)
        with stopped_in_the_end(node):
            node.start()
            these = clients(f"http://{address}")
            for number in range(times):
                with acting(these):
                    wait_for_actions(these, _BEFORE)
                    filler = fill(disk)
                    if panics := number % 2 == 1:
                        _switch(url)
                    _wait_for_refusals(these)
                    assert _status(address, "live") == 200
                    wait_until(lambda: _status(address, "ready") == 503, "it stays ready")
                    unread += not panics and not _reads(these)
                    if not number:
                        _doctor_names_it(node.here)
                    filler.unlink()
                    recovered.append(wait_for_recovery(these, lambda: _supervise(disk, started)))
                verdict.judge(these)
        indexes = _sound_indexes(url)
    wrong = set(verdict.answers) - _FINE
    counts = (
        f"{times} times full; {verdict}; {verdict.answers['503']} answers 503; all served again "
        f"{max(recovered):.1f} s after there was room at most; PostgreSQL ended itself and was "
        f"started again {len(started)} times; {unread} reads failed while it ran; {indexes} "
        f"indexes match their tables{f'; others: {sorted(wrong)}' if wrong else ''}"
    )
    return Outcome(
        "E18 full disk, PostgreSQL",
        "503 and not ready, reads are answered, nothing acknowledged is lost, nothing is corrupt; "
        "back within 5 s of room on the disk",
        counts,
        verdict.is_good
        and not (wrong or unread)
        and (times < _ENOUGH or max(recovered) < _LONGEST),
    )


def full_log_disk(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Fill the disk that the log is written to, and free it, `times`."""
    address = f"127.0.0.1:{free_port()}"
    node = Node(folder / "node")
    configure(node.here, url=f"http://{address}", listen=address, database="sqlite:///a/auth.db")
    file = node.here / "valetkey.toml"
    file.write_text(file.read_text().replace('"warning"', '"info"'))
    register(node.here)
    resumed = 0
    with mounted("256k") as disk:
        log = disk / "log"
        (node.here / "log").symlink_to(log)
        with stopped_in_the_end(node):
            node.start()
            with asking(address, address) as load:
                for _ in range(times):
                    fill(disk)
                    full = load.total
                    wait_until(lambda full=full: load.total > full + _REQUESTS)  # type: ignore[misc]
                    (disk / "filler").unlink()
                    os.truncate(log, 0)
                    wait_until(lambda: _whole_lines(log) > _BEFORE, "nothing is logged any more")
                    resumed += 1
    counts = (
        f"{times} times full, {load.total} requests, {load.failed} failed, longest "
        f"{load.longest:.1f} s; logged again {resumed} times"
    )
    return Outcome(
        "E18 full disk of the log",
        "no failed request; the log goes on when there is room",
        counts,
        not load.failed and resumed == times,
    )


@contextmanager
def mounted(size: str) -> Generator[Path]:
    """Mount a disk of this size in a folder that the user of PostgreSQL can read."""
    with (
        tempfile.TemporaryDirectory(prefix="vk-disk-", dir="/tmp") as name,
        mounted_at(Path(name), size),
    ):
        yield Path(name)


@contextmanager
def mounted_at(folder: Path, size: str) -> Generator[None]:
    """Mount a disk of this size at a folder."""
    options = f"size={size},mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Write to a file until there is no room for a page."""
    file = disk / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (1 << 20, 4_096):
            with suppress(OSError):
                while True:
                    filler.write(bytes(size))
    return file


@contextmanager
def _server(disk: Path) -> Generator[str]:
    # The sockets lie on the disk: an empty file needs no room.
    postgres.create(disk)
    postgres.start(disk / "data", disk)
    try:
        yield postgres.url(disk, "postgres")
    finally:
        if _is_running(disk):
            postgres.stop(disk / "data")


def _switch(url: str) -> None:
    """Have PostgreSQL begin a new file of its log, for which there is no room: it panics."""
    with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as raw:
        raw.execute(b"SELECT pg_switch_wal()")
        raw.execute(b"SELECT txid_current()")


def _is_running(disk: Path) -> bool:
    with suppress(OSError):
        pid = int((disk / "data/postmaster.pid").read_text().split()[0])
        return "postgres" in name(pid)
    return False


def _supervise(disk: Path, started: list[float]) -> None:
    """Start PostgreSQL if it gave up, as its service manager would, and note the time.

    It may give up after there is room again: its recovery failed just before.
    """
    if not _is_running(disk):
        postgres.start(disk / "data", disk)
        started.append(time.monotonic())


def _wait_for_refusals(these: Sequence[Client]) -> None:
    def refused() -> int:
        return sum(client.journal.answers["503"] for client in these)

    before = refused()
    wait_until(lambda: refused() >= before + _REFUSED, "nothing is refused")


def _status(address: str, path: str) -> int:
    try:
        with urlopen(f"http://{address}/health/{path}", timeout=CEILING) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


def _reads(these: Sequence[Client]) -> bool:
    """Return whether tokens that were issued before can be looked up."""
    return all(Client(client.url).is_active(client.journal.tokens[0]) for client in these)


def _doctor_names_it(here: Path) -> None:
    report = json.dumps(valetkey("doctor", "--json", here=here).json)
    assert "No space left on device" in report, report


def _whole_lines(log: Path) -> int:
    *lines, _ = log.read_bytes().lstrip(b"\0").split(b"\n")
    return sum(1 for line in lines if line.startswith(b"{") and line.endswith(b"}"))


def _sound_indexes(url: str) -> int:
    """Compare every index with its table; raise if one does not match."""
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(b"CREATE EXTENSION IF NOT EXISTS amcheck")
        row = raw.execute(_INDEXES).fetchone()
        assert row is not None
        return int(row[0])
