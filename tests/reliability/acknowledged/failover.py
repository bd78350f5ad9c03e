"""E08: kill the primary of a PostgreSQL pair under load, and promote its standby."""

import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.ports import free_port
from tests.reliability.acknowledged.journal import (
    Client,
    Redeeming,
    Verdict,
    acting,
    clients,
    wait_for_actions,
)
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome, percentile
from tests.support import postgres
from tests.support.wait import wait_until

_STANDBY = "standby"
_BEFORE = 20  # acknowledged actions of each client before the kill
_CODES = 4  # issued before the standby loses its connection, redeemed afterwards
_BEHIND = 5  # those of each client that an asynchronous standby has not received
_LONGEST = 15.0  # seconds without a token, 95th percentile

# 400: a code or its replay whose first answer was lost in the failover.
_FINE = {"200", "302", "303", "400", "503"}


def failover(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill -9 of the primary under load, promotion, and a new standby in its place; `times`."""
    verdict = Verdict()
    gaps: list[float] = []
    with _pair(folder, _synchronous) as (url, pair):
        these = clients(url)
        for number in range(times):
            with acting(these):
                wait_for_actions(these, _BEFORE)
                gaps.append(_gap(pair, these))
            verdict.judge(these)
            if number < times - 1:
                pair.follow()
    held = verdict.is_good and percentile(gaps, 0.95) < _LONGEST and set(verdict.answers) <= _FINE
    counts = f"{times} failovers, {verdict}; {_told(gaps)}; {verdict.answers['503']} answers 503"
    promise = "nothing acknowledged is lost, nothing works twice, back within 15 s at p95"
    return Outcome("E08 failover to a synchronous standby", promise, counts, held)


def asynchronous_failover(folder: Path, times: int, chance: random.Random) -> Outcome:
    """The same with a standby that has fallen behind: what was acknowledged since is lost."""
    all_of_it, received = Verdict(), Verdict()
    spent = again = 0
    gaps: list[float] = []
    with _pair(folder, _asynchronous) as (url, pair):
        for number in range(times):
            # New ones in each round: the grant of a refresh token that was lost has ended.
            these = clients(url)
            redeeming = [client for client in these if isinstance(client, Redeeming)]
            codes = [redeeming[0].code() for _ in range(_CODES)]
            with acting(these):
                wait_for_actions(these, _BEFORE)
                before = [client.journal.copy() for client in redeeming]
                pair.cut()
                redeemed = [code for code in codes if Client(url).redeem(code)]
                wait_for_actions(these, _BEHIND)
                gaps.append(_gap(pair, redeeming))
            spent += len(redeemed)
            again += sum(Client(url).redeem(code) is not None for code in redeemed)
            received.look_up(redeeming, before)
            all_of_it.judge(these)
            if number < times - 1:
                pair.follow()
    line_count = (folder / "node/log").read_text().count('"database.failover"')
    held = not received.lost and set(all_of_it.answers) <= _FINE and line_count > 0
    counts = (
        f"{times} failovers to a standby that had lost its connection {_BEHIND} actions of each "
        f"client before, {all_of_it}; of {received.checked} that it had received "
        f"{received.lost} lost; {again} of {spent} codes that were issued before and redeemed "
        f"after were redeemed again; {_told(gaps)}; {line_count} lines `database.failover`"
    )
    promise = (
        "the failover guide: what the standby had not received is lost, its codes work again, and "
        "grants whose refresh token was rotated meanwhile end; nothing else is lost; it is logged, "
        "once a minute at most; back within 15 s at p95"
    )
    return Outcome(
        "E08 failover to an asynchronous standby",
        promise,
        counts,
        held and percentile(gaps, 0.95) < _LONGEST,
    )


@dataclass
class _Pair:
    """The folders of two PostgreSQL servers, which change their roles with every failover."""

    primary: Path
    standby: Path
    begin: Callable[[Path], None]
    """Wait until the standby of this primary has joined."""

    def fail_over(self) -> None:
        """Kill -9 of the primary, and promote the standby."""
        postgres.kill(self.primary / "data")
        postgres.promote(self.standby / "data")
        self.primary, self.standby = self.standby, self.primary

    def follow(self) -> None:
        """Make a standby of the server that was killed."""
        postgres.follow(self.standby, self.primary, _STANDBY)
        self.begin(self.primary)

    def cut(self) -> None:
        """Have the standby receive all there is, and nothing more."""
        with _connected(self.primary) as primary, _connected(self.standby) as standby:
            row = primary.execute(b"SELECT pg_current_wal_flush_lsn()::text").fetchone()
            assert row is not None
            here = row[0]

            def received() -> bool:
                row = standby.execute(_RECEIVED, (here,)).fetchone()
                return row == (True,)

            wait_until(received, "the standby does not follow")
            standby.execute(b"ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'")
            standby.execute(b"SELECT pg_reload_conf()")
            wait_until(lambda: _senders(primary) == [], "the standby is still connected")


_RECEIVED = b"SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"


def _connected(server: Path) -> psycopg.Connection:
    return psycopg.connect(postgres.url(server, "postgres"), autocommit=True)


def _senders(primary: psycopg.Connection) -> list[str]:
    rows = primary.execute(b"SELECT sync_state FROM pg_stat_replication").fetchall()
    return [str(state) for (state,) in rows]


@contextmanager
def _pair(folder: Path, begin: Callable[[Path], None]) -> Generator[tuple[str, _Pair]]:
    """Run a node on two PostgreSQL servers that it knows; its URL, and the two."""
    address = f"127.0.0.1:{free_port()}"
    node, url = Node(folder / "node"), f"http://{address}"
    with postgres.own_server() as first, postgres.standby(first, _STANDBY) as second:
        hosts = f"host={first},{second}&target_session_attrs=read-write"
        database = f"postgresql://{postgres.USER}@/postgres?{hosts}"
        begin(first)
        configure(node.here, url=url, listen=address, database=database)
        register(node.here, rotates=True)
        with stopped_in_the_end(node):
            node.start()
            yield url, _Pair(first, second, begin)


def _gap(pair: _Pair, these: Sequence[Client]) -> float:
    """Return the seconds from the kill until each of these clients is served again."""
    killed = time.monotonic()
    pair.fail_over()
    wait_until(lambda: all(client.done[-1] > killed for client in these), "it does not recover")
    return time.monotonic() - killed


def _told(gaps: Sequence[float]) -> str:
    middle, late = percentile(gaps, 0.5), percentile(gaps, 0.95)
    return f"back after {middle:.1f} s (median), {late:.1f} s (p95)"


def _synchronous(primary: Path) -> None:
    """Have the primary wait for its standby before it acknowledges anything."""
    _joined(primary, _STANDBY, "sync")


def _asynchronous(primary: Path) -> None:
    _joined(primary, "", "async")


def _joined(primary: Path, awaited: str, state: str) -> None:
    with _connected(primary) as raw:
        raw.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{awaited}'".encode())
        raw.execute(b"SELECT pg_reload_conf()")
        wait_until(lambda: _senders(raw) == [state], "the standby does not join")
