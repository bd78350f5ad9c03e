"""E24: the database aborts one in five statements that write, under load."""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import psycopg

from bench.ports import free_port
from tests.reliability.acknowledged.journal import (
    Client,
    Redeeming,
    Refreshing,
    Verdict,
    acting,
    clients,
    wait_for_actions,
)
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support import postgres

_FINE = {"200", "302", "303", "503"}
_SHARE = 0.2
# After the statement, so that there is something to undo. A sequence is not rolled back.
_FAULT = f"""
CREATE SEQUENCE aborted;
CREATE FUNCTION abort() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF random() < {_SHARE} THEN
        IF nextval('aborted') % 2 = 0 THEN
            RAISE EXCEPTION 'aborted' USING ERRCODE = '40001';
        END IF;
        RAISE EXCEPTION 'aborted' USING ERRCODE = '40P01';
    END IF;
    RETURN NULL;
END $$;
"""
_NO_FAULT = b"""
CREATE OR REPLACE FUNCTION abort() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'
"""
_TRIGGERS = (
    "SELECT format('CREATE TRIGGER abort AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT"
    " EXECUTE FUNCTION abort()', tablename) FROM pg_tables WHERE schemaname = 'public'"
)
# Python imports a module of this name at its start.
_SITE = f"""
import os, random, apsw

WRITES = ("INSERT", "UPDATE", "DELETE", "BEGIN IMMEDIATE", "WITH")

class Connection(apsw.Connection):
    def execute(self, sql, *more, **options):
        if sql.startswith(WRITES) and random.random() < {_SHARE} and os.path.exists("abort"):
            with open("aborted", "a") as file:
                file.write("1")
            raise apsw.BusyError("aborted")
        return super().execute(sql, *more, **options)

apsw.Connection = Connection
"""
# What the load changes: grants, rotations of refresh tokens, and revocations.
_COUNTS = (
    "SELECT count(*), coalesce(sum(generation - 1), 0), count(revoked_at)"
    " FROM grants WHERE client_id = 'printer'"
)


@dataclass
class _Site:
    """A server whose database can be told to abort statements."""

    url: str
    count: Callable[[], tuple[int, int, int]]
    """What `_COUNTS` returns."""
    begin: Callable[[], None]
    end: Callable[[], int]
    """Stop aborting, and return how many statements were aborted."""


def aborted_transactions(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Have each client act `times` meanwhile, on each engine."""
    verdict, summaries, wrong = Verdict(), list[str](), 0
    for name, run in _ENGINES.items():
        with run(folder / name) as site:
            these = clients(site.url)
            before = site.count()
            with acting(these):
                site.begin()
                wait_for_actions(these, times)
                aborted = site.end()
            changed = tuple(now - then for now, then in zip(site.count(), before, strict=True))
            acknowledged = _acknowledged(these)
            wrong += sum(abs(one - two) for one, two in zip(changed, acknowledged, strict=True))
            refused = sum(client.journal.answers["503"] for client in these)
            verdict.judge(these)
            summaries.append(
                f"{name}: {aborted} statements aborted, {refused} answers 503; {changed[0]} of "
                f"{acknowledged[0]} grants, {changed[1]} of {acknowledged[1]} rotations and "
                f"{changed[2]} of {acknowledged[2]} revocations written"
            )
    strange = set(verdict.answers) - _FINE
    counts = f"{'; '.join(summaries)}; {verdict}{f'; others: {sorted(strange)}' if strange else ''}"
    return Outcome(
        "E24 one in five writing statements aborted",
        "200 or 503 with Retry-After; what was acknowledged is written once, what was refused not "
        "at all",
        counts,
        verdict.is_good and not wrong and not strange,
    )


def _acknowledged(these: Sequence[Client]) -> tuple[int, int, int]:
    """Return how many grants, rotations and revocations were acknowledged."""
    redeeming = [client for client in these if isinstance(client, Redeeming)]
    refreshing = [client for client in these if isinstance(client, Refreshing)]
    return (
        sum(client.redeemed for client in redeeming),
        sum(len(client.journal.tokens) for client in refreshing),
        sum(len(client.journal.revoked) for client in redeeming),
    )


@contextmanager
def _sqlite(here: Path) -> Generator[_Site]:
    address = f"127.0.0.1:{free_port()}"
    node = Node(here)
    configure(here, url=f"http://{address}", listen=address, database="sqlite:///a/auth.db")
    register(here, rotates=True)
    (here / "fault").mkdir()
    (here / "fault/sitecustomize.py").write_text(_SITE)
    node.environment = {"PYTHONPATH": str(here / "fault")}

    def count() -> tuple[int, int, int]:
        raw = apsw.Connection(str(here / "a/auth.db"), flags=apsw.SQLITE_OPEN_READONLY)
        (row,) = raw.execute(_COUNTS)
        raw.close()
        return row[0], row[1], row[2]

    def end() -> int:
        (here / "abort").unlink()
        return len((here / "aborted").read_text())

    with stopped_in_the_end(node):
        node.start()
        yield _Site(f"http://{address}", count, (here / "abort").touch, end)


@contextmanager
def _postgres(here: Path) -> Generator[_Site]:
    address = f"127.0.0.1:{free_port()}"
    node = Node(here)
    with postgres.database() as url, psycopg.connect(url, autocommit=True) as raw:
        configure(here, url=f"http://{address}", listen=address, database=url)
        register(here, rotates=True)

        def count() -> tuple[int, int, int]:
            row = raw.execute(_COUNTS.encode()).fetchone()
            assert row is not None
            return int(row[0]), int(row[1]), int(row[2])

        def begin() -> None:
            raw.execute(_FAULT.encode())
            for (text,) in raw.execute(_TRIGGERS.encode()).fetchall():
                raw.execute(str(text).encode())

        def end() -> int:
            # Dropping it would lock every table.
            raw.execute(_NO_FAULT)
            row = raw.execute(b"SELECT last_value FROM aborted").fetchone()
            assert row is not None
            return int(row[0])

        with stopped_in_the_end(node):
            node.start()
            yield _Site(f"http://{address}", count, begin, end)


_ENGINES: Mapping[str, Callable[[Path], AbstractContextManager[_Site]]] = {
    "SQLite": _sqlite,
    "PostgreSQL": _postgres,
}
