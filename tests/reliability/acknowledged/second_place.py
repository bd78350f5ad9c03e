"""E42: a machine burns whose SQLite databases Litestream copies to a second place."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.ports import free_port
from tests.architecture.tree import ROOT
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
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support.wait import CEILING, wait_until

LITESTREAM = Path(sys.executable).with_name("litestream")
_CONFIGURATION = ROOT / "deploy/litestream/litestream.yml"
_DATABASES = ("authorization", "resource")
_BURNS = shutil.ignore_patterns("*.db*", "*.last-seen", "*.endings")
_LONGEST_LOSS = 5.0  # seconds
_ENOUGH = 10  # fires, below which the machine of a test may be too slow
_LOOK_EVERY = 0.1  # seconds

_Notes = Sequence[tuple[float, Sequence[Journal]]]
"""What was acknowledged up to each of these moments."""


def burnt_machines(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill server and copy, delete both databases, and restore them on another machine."""
    kept, lost, live = Verdict(), list[float](), 0
    for number in range(times):
        address = f"127.0.0.1:{free_port()}"
        node, other = (Node(folder / f"{name}-{number}") for name in ("first", "second"))
        environment = {
            "VALETKEY_DATA": str(node.here / "data"),
            "SECOND_PLACE": f"file://{folder}/place-{number}",
        }
        configure(
            node.here,
            url=f"http://{address}",
            listen=address,
            database="sqlite:///data/authorization.db",
            more='[resource]\ndatabase = "sqlite:///data/resource.db"\n',
        )
        register(node.here, rotates=True)
        assert valetkey("database", "migrate", here=node.here).code == 0
        with stopped_in_the_end(node, other):
            these, copied, notes = _burnt(node, folder / f"place-{number}", environment, chance)
            shutil.copytree(node.here, other.here, ignore=_BURNS)
            shutil.rmtree(node.here)
            files = [_restored(database, other.here, environment) for database in _DATABASES]
            # As it is, to see what is in it; a server of this machine has seen no other database.
            shutil.copy2(files[0], other.here / "data/authorization.db")
            other.start()
            kept.look_up(these, copied)
            lost.append(notes[-1][0] - _complete_until(these, notes))
            other.stop()
            ran = valetkey(
                "database",
                "restore",
                *(f"--{name}={file}" for name, file in zip(_DATABASES, files, strict=True)),
                "--accept",
                "--yes",
                here=other.here,
            )
            assert ran.code == 0, ran.out + ran.err
            other.start()
            live += count_active(these, notes[-1][1])
    return Outcome(
        "E42 fires beside Litestream",
        f"the second place lacks what was acknowledged in the last {_LONGEST_LOSS:.0f} s at most, "
        "and nothing else; after `valetkey database restore` no token works",
        f"{times} fires; acknowledged and lost: the last {max(lost):.1f} s at most, "
        f"{sum(lost) / times:.1f} s on average; {kept.checked} tokens and revocations from before "
        f"the latest complete copy looked up, {kept.lost} lost; {live} tokens active after "
        "`valetkey database restore`",
        kept.is_good and not live and (times < _ENOUGH or max(lost) <= _LONGEST_LOSS),
    )


def _burnt(
    node: Node, copy_folder: Path, environment: Mapping[str, str], chance: random.Random
) -> tuple[Sequence[Client], Sequence[Journal], _Notes]:
    """Return the clients, what was acknowledged before a copy began, and all until the end."""
    node.start()
    these = clients(f"http://{_listen(node)}")
    notes: list[tuple[float, Sequence[Journal]]] = []

    def note() -> Sequence[Journal]:
        notes.append((time.monotonic(), [client.journal.copy() for client in these]))
        return notes[-1][1]

    with _copying(environment) as copying, acting(these):
        wait_for_actions(these, 5)
        copied, before = note(), _copies(copy_folder)
        # The first of two may have been read before; the second was read after the first.
        wait_until(lambda: note() and len(_copies(copy_folder) - before) > 1, "nothing is copied")
        until = time.monotonic() + chance.uniform(1, 4)
        while time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
            note()
        copying.kill()
        node.kill()
        note()
    return these, copied, notes


def _listen(node: Node) -> str:
    lines = (node.here / "valetkey.toml").read_text().splitlines()
    (line,) = (setting for setting in lines if setting.startswith("listen"))
    return line.split('"')[1]


def _copies(copy_folder: Path) -> set[Path]:
    return set((copy_folder / "authorization/ltx/0").glob("*.ltx"))


@contextmanager
def _copying(environment: Mapping[str, str]) -> Generator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        (LITESTREAM, "replicate", "-config", _CONFIGURATION, "-log-level", "error"),
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _restored(name: str, here: Path, environment: Mapping[str, str]) -> Path:
    file = here / f"{name}.db"
    subprocess.run(
        (
            LITESTREAM,
            "restore",
            "-config",
            _CONFIGURATION,
            "-o",
            file,
            f"{environment['VALETKEY_DATA']}/{name}.db",
        ),
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        timeout=CEILING,
        umask=0o077,
    )
    return file


def _complete_until(these: Sequence[Client], notes: _Notes) -> float:
    """Return the last moment up to which nothing is lost."""
    token_states: dict[str, bool] = {}

    def holds(client: Client, token: str, *, active: bool) -> bool:
        if token not in token_states:
            token_states[token] = client.is_active(token)
        return token_states[token] is active

    def is_complete(journals: Sequence[Journal]) -> bool:
        return all(
            all(holds(client, token, active=True) for token in reversed(journal.tokens))
            and all(holds(client, token, active=False) for token in reversed(journal.revoked))
            for client, journal in zip(these, journals, strict=True)
        )

    return next(at for at, journals in reversed(notes) if is_complete(journals))
