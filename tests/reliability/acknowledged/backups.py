"""E25, E27: backups under load, each restored and compared with what was acknowledged."""

import random
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from bench.ports import free_port
from tests.cli.running import valetkey
from tests.reliability.acknowledged.journal import (
    Client,
    Journal,
    Verdict,
    acting,
    clients,
    wait_for_actions,
)
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support import postgres

_LEFT_OUT = shutil.ignore_patterns("auth.db*", "saved", "*.dump")
_BETWEEN = 5  # acknowledged actions of each client between two backups


@dataclass
class _Engine:
    """A database, how to back it up to a file, and how to restore it as another one."""

    url: str
    back_up: Callable[[Path, int], Path]
    restore: Callable[[Path, Path], AbstractContextManager[str]]
    """Restore the file for the configuration in the folder; the URL of the new database."""


def backups_under_load(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Make `times` backups on each engine; restore each, with and without ending its tokens."""
    kept, told, live = Verdict(), list[str](), 0
    for name, run in _ENGINES.items():
        address = f"127.0.0.1:{free_port()}"
        node = Node(folder / name)
        made: list[tuple[Path, Sequence[Journal]]] = []
        with run() as engine:
            configure(node.here, url=f"http://{address}", listen=address, database=engine.url)
            register(node.here, rotates=True)
            # The commands work on both databases.
            assert valetkey("database", "migrate", here=node.here).code == 0
            with stopped_in_the_end(node):
                node.start()
                these = clients(f"http://{address}")
                with acting(these):
                    for number in range(times):
                        wait_for_actions(these, _BETWEEN)
                        notes = [each.journal.copy() for each in these]
                        made.append((engine.back_up(node.here, number), notes))
            for number, (file, then) in enumerate(made):
                here = folder / f"{name}-{number}"
                shutil.copytree(node.here, here, ignore=_LEFT_OUT)
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
                        live += _live(these, then)
        told.append(f"{times} on {name}")
    counts = (
        f"backups: {', '.join(told)}; {kept.acknowledged} tokens and revocations acknowledged "
        f"before a backup looked up in its copy, {kept.lost} lost; {live} of them active after "
        f"`valetkey database restore`"
    )
    return Outcome(
        "E25, E27 backups under load",
        "a backup has everything that was acknowledged before it began; after `valetkey database "
        "restore` no token works",
        counts,
        kept.checked > 0 and not kept.lost and not live,
    )


def _live(these: Sequence[Client], notes: Sequence[Journal]) -> int:
    """Return how many tokens are active."""
    return sum(
        client.is_active(token)
        for client, note in zip(these, notes, strict=True)
        for token in (*note.tokens, *note.revoked)
    )


@contextmanager
def _sqlite() -> Generator[_Engine]:
    def back_up(here: Path, number: int) -> Path:
        ran = valetkey("database", "backup", f"saved/{number}", "--json", here=here)
        assert ran.code == 0, ran.out + ran.err
        (file,) = (Path(each) for each in ran.json if "authorization" in Path(each).name)
        return here.joinpath(file)

    @contextmanager
    def restore(file: Path, here: Path) -> Generator[str]:
        shutil.copy2(file, here / "a/auth.db")
        raw = apsw.Connection(str(here / "a/auth.db"), flags=apsw.SQLITE_OPEN_READONLY)
        assert raw.pragma("integrity_check") == "ok"
        assert not list(raw.execute("PRAGMA foreign_key_check"))
        raw.close()
        yield "sqlite:///a/auth.db"

    yield _Engine("sqlite:///a/auth.db", back_up, restore)


@contextmanager
def _postgres() -> Generator[_Engine]:
    def run(program: str, *arguments: str) -> None:
        binaries = postgres.binaries()
        assert binaries is not None
        subprocess.run([str(binaries / program), *arguments], check=True, capture_output=True)

    with postgres.database() as url:

        def back_up(here: Path, number: int) -> Path:
            file = here / f"{number}.dump"
            run("pg_dump", "--format=custom", f"--file={file}", url)
            return file

        @contextmanager
        def restore(file: Path, here: Path) -> Generator[str]:
            with postgres.database() as copy:
                run("pg_restore", "--exit-on-error", f"--dbname={copy}", str(file))
                yield copy

        yield _Engine(url, back_up, restore)


_ENGINES: Mapping[str, Callable[[], AbstractContextManager[_Engine]]] = {
    "SQLite": _sqlite,
    "PostgreSQL": _postgres,
}
