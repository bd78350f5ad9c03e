"""E25, E27: backups under load, each restored and compared with what was acknowledged."""

import random
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from bench.growth.slices import sliced, slices_are_there
from bench.ports import free_port
from tests.cli.running import valetkey
from tests.reliability.acknowledged.journal import (
    Client,
    Journal,
    Verdict,
    acting,
    clients,
    count_active,
    wait_for_actions,
)
from tests.reliability.flows import late
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.reliability.tables.rows import connected, fill
from tests.support import postgres
from tests.support.wait import CEILING
from valetkey.kernel.runtime import SYSTEM

_LEFT_OUT = shutil.ignore_patterns("auth.db*", "saved", "*.dump")
_PAUSE = 0.02  # seconds before each action; without pauses clients and server use both cores
_BETWEEN = 5  # acknowledged actions of each client between two backups
_ENOUGH = 10  # backups, below which a percentile is only the worst
_FILLED = 100_000  # tokens, and as many codes, of a database whose backups are measured
_LASTS = 86_400  # seconds until they expire
_SHORTEST = 2.0  # seconds between two backups that are measured
_MOST_SLOWER = 1.2
_QUOTA = 0.15  # of a core, for a pg_dump that is measured, as the guide's CPUQuota=15% gives it


@dataclass
class _Engine:
    """A database, how to back it up to a file, and how to restore it as another one."""

    name: str
    url: str
    back_up: Callable[[Path, int], Path]
    restore: Callable[[Path, Path], AbstractContextManager[str]]
    """Restore the file for the configuration in the folder; the URL of the new database."""


@dataclass(slots=True)
class _Beside:
    """The seconds of requests during backups and between them."""

    during: list[float] = field(default_factory=list[float])
    between: list[float] = field(default_factory=list[float])
    backups: list[float] = field(default_factory=list[float])

    def add(self, these: Sequence[Client], spans: Sequence[tuple[float, float]]) -> None:
        """Sort the requests since the first actions of each client, which find caches cold."""
        self.backups = [ended - began for began, ended in spans]
        first = max(client.done[_BETWEEN - 1] for client in these)
        for began, ended, _ in (request for client in these for request in client.asked):
            if began >= first:
                beside = any(began <= over and ended >= start for start, over in spans)
                (self.during if beside else self.between).append(ended - began)

    @property
    def held(self) -> bool:
        return late(self.during) <= _MOST_SLOWER * late(self.between)

    def __str__(self) -> str:
        """Return the measurements for a row of the table."""
        return (
            f"{len(self.backups)} backups of {max(self.backups):.1f} s at most, "
            f"{len(self.during)} requests meanwhile, p99 {late(self.during):.1f} ms "
            f"({late(self.between):.1f} ms of {len(self.between)} between them)"
        )


def backups_under_load(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Make `times` backups on each engine; restore each, with and without ending its tokens."""
    kept, summaries, live, held = Verdict(), list[str](), 0, True
    for name, run in _ENGINES.items():
        address = f"127.0.0.1:{free_port()}"
        node = Node(folder / name)
        with run(times >= _ENOUGH and slices_are_there()) as engine:
            configure(node.here, url=f"http://{address}", listen=address, database=engine.url)
            register(node.here, rotates=True)
            # The commands work on both databases.
            assert valetkey("database", "migrate", here=node.here).code == 0
            with stopped_in_the_end(node):
                these, made, beside = _made(engine, node, times, f"http://{address}")
            for number, (file, then) in enumerate(made):
                here = folder / f"{name}-{number}"
                live += _restored(engine, file, node.here, here, these, then, kept)
                shutil.rmtree(here)
        held = held and (times < _ENOUGH or beside.held)
        summaries.append(f"{name}: {beside}")
    counts = (
        f"{'; '.join(summaries)}; {kept.acknowledged} tokens and revocations acknowledged "
        f"before a backup looked up in its copy, {kept.lost} lost; {live} of them active after "
        f"`valetkey database restore`"
    )
    return Outcome(
        "E25, E27 backups under load",
        "a backup has everything that was acknowledged before it began; requests take at most "
        "20 % longer at p99 meanwhile; after `valetkey database restore` no token works",
        counts,
        held and kept.checked > 0 and not kept.lost and not live,
    )


def _made(
    engine: _Engine, node: Node, times: int, url: str
) -> tuple[Sequence[Client], Sequence[tuple[Path, Sequence[Journal]]], _Beside]:
    """Make the backups under load; return each with what was acknowledged before it began."""
    made: list[tuple[Path, Sequence[Journal]]] = []
    spans: list[tuple[float, float]] = []
    measured = times >= _ENOUGH
    if measured:
        file = node.here / "a/auth.db" if engine.name == "SQLite" else None
        with connected(file, engine.url) as raw:
            fill(raw, engine.name, _FILLED, SYSTEM.now() + _LASTS, 1)
    node.start()
    these, beside = clients(url), _Beside()
    with acting(these, pause=_PAUSE):
        for number in range(times):
            wait_for_actions(these, _BETWEEN)
            if measured:
                # As many requests without a backup as with one.
                time.sleep(max([_SHORTEST, *(ended - began for began, ended in spans[-1:])]))
            notes, began = [client.journal.copy() for client in these], time.monotonic()
            made.append((engine.back_up(node.here, number), notes))
            spans.append((began, time.monotonic()))
    beside.add(these, spans)
    return these, made, beside


def _restored(
    engine: _Engine,
    file: Path,
    source: Path,
    here: Path,
    these: Sequence[Client],
    then: Sequence[Journal],
    kept: Verdict,
) -> int:
    """Look up in a restored backup what was acknowledged; return how much a restore leaves."""
    shutil.copytree(source, here, ignore=_LEFT_OUT)
    for seen in here.rglob("authorization.last-seen"):
        seen.unlink()
    with engine.restore(file, here) as url:
        config = here / "valetkey.toml"
        config.write_text(config.read_text().replace(engine.url, url))
        copy = Node(here)
        with stopped_in_the_end(copy):
            copy.start()
            kept.look_up(these, then)
        ran = valetkey("database", "restore", "--accept", "--yes", here=here)
        assert ran.code == 0, ran.out + ran.err
        with stopped_in_the_end(copy):
            copy.start()
            return count_active(these, then)


@contextmanager
def _sqlite(_has_quota: bool) -> Generator[_Engine]:
    def back_up(here: Path, number: int) -> Path:
        ran = valetkey("database", "backup", f"saved/{number}", "--json", here=here)
        assert ran.code == 0, ran.out + ran.err
        (file,) = (Path(path) for path in ran.json if "authorization" in Path(path).name)
        return here.joinpath(file)

    @contextmanager
    def restore(file: Path, here: Path) -> Generator[str]:
        shutil.copy2(file, here / "a/auth.db")
        raw = apsw.Connection(str(here / "a/auth.db"), flags=apsw.SQLITE_OPEN_READONLY)
        assert raw.pragma("integrity_check") == "ok"
        assert not list(raw.execute("PRAGMA foreign_key_check"))
        raw.close()
        yield "sqlite:///a/auth.db"

    yield _Engine("SQLite", "sqlite:///a/auth.db", back_up, restore)


@contextmanager
def _postgres(has_quota: bool) -> Generator[_Engine]:
    def run(program: str, *arguments: str, quota: bool = False) -> None:
        binaries = postgres.binaries()
        assert binaries is not None
        # It begins once it has its quota.
        gate = ("sh", "-c", 'read _; exec "$@"', program)
        with (
            subprocess.Popen(
                (*gate, str(binaries / program), *arguments), stdin=subprocess.PIPE, text=True
            ) as process,
            sliced([process.pid], _QUOTA) if quota else nullcontext(),
        ):
            process.communicate("\n", CEILING)
        assert not process.returncode

    with postgres.database() as url:

        def back_up(here: Path, number: int) -> Path:
            file = here / f"{number}.dump"
            form = ("--format=custom", "--compress=1")
            run("pg_dump", *form, f"--file={file}", url, quota=has_quota)
            return file

        @contextmanager
        def restore(file: Path, here: Path) -> Generator[str]:
            with postgres.database() as copy:
                run("pg_restore", "--exit-on-error", f"--dbname={copy}", str(file))
                yield copy

        yield _Engine("PostgreSQL", url, back_up, restore)


_ENGINES: Mapping[str, Callable[[bool], AbstractContextManager[_Engine]]] = {
    "SQLite": _sqlite,
    "PostgreSQL": _postgres,
}
