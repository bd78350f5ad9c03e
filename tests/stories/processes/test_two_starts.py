"""Two nodes that start together on an empty or an old database: one migrates, and both serve."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import requests

from bench.ports import free_port
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.stories.processes.serving import SECRET
from tests.support.schema_copy import migrated
from tests.support.wait import CEILING, wait_until
from valetkey.database import migrate as migrations
from valetkey.database.connect import connect
from valetkey.kernel.keyring import create_or_read
from valetkey.kernel.runtime import SYSTEM

_SCHEMA = "valetkey.authorization.storage.schema"
_OLD = 30  # migrations of the old database

# Each migration takes long enough for the other process to come in between.
_MIGRATING = """
import asyncio, json, sys, time
from pathlib import Path
from valetkey.database import migrate
from valetkey.database.connect import connect
from valetkey.kernel.keyring import create_or_read
from valetkey.kernel.runtime import SYSTEM

apply, counted = migrate._apply, []

def slowly(db, package, migration):
    counted.append(migration.number)
    apply(db, package, migration)
    time.sleep(0.01)

migrate._apply = slowly

async def main():
    engine = connect(sys.argv[1], directory=Path("/"))
    sys.stdin.readline()
    await migrate.migrate(engine, sys.argv[2])
    await engine.close()
    print(json.dumps(counted))

asyncio.run(main())
"""


def _make_old(url: str, patch: pytest.MonkeyPatch) -> None:
    """Apply the first migrations, as a server of that time did."""
    first = migrations.find(_SCHEMA)[:_OLD]

    def find(_: str) -> object:
        return first

    async def make() -> None:
        engine = connect(url, directory=Path("/"))
        with patch.context() as then:
            then.setattr(migrations, "find", find)
            # The other tests copy the tables of today instead of applying the migrations.
            then.setattr(migrations, "apply_missing", migrated)
            await migrations.migrate(engine, _SCHEMA)
        await engine.close()

    asyncio.run(make())


@pytest.mark.parametrize("age", ["empty", "old"])
def test_one_of_two_processes_that_start_together_migrates(
    database_url: str, monkeypatch: pytest.MonkeyPatch, age: str
) -> None:
    todo = [migration.number for migration in migrations.find(_SCHEMA)]
    if age == "old":
        _make_old(database_url, monkeypatch)
        todo = todo[_OLD:]
    command = [sys.executable, "-c", _MIGRATING, database_url, _SCHEMA]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    done = [process.communicate(timeout=CEILING)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(json.loads(output) for output in done) == [[], todo]


@pytest.mark.parametrize("age", ["empty", "old"])
def test_both_nodes_that_start_together_serve(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: str
) -> None:
    # The nodes of an installation have one keyring.
    keyring = tmp_path / "valetkey.keyring"
    if age == "old":
        create_or_read(keyring, SYSTEM.random)
        _make_old(database_url, monkeypatch)
    nodes = [Node(tmp_path / "first"), Node(tmp_path / "second")]
    listens = [f"127.0.0.1:{free_port()}" for _ in nodes]
    for node, listen in zip(nodes, listens, strict=True):
        configure(node.here, url=f"http://{listens[0]}", listen=listen, database=database_url)
        file = node.here / "valetkey.toml"
        section = f'[authorization]\nkeyring = "{keyring}"\n'
        file.write_text(file.read_text().replace("[authorization]\n", section))
    with stopped_in_the_end(*nodes), ThreadPoolExecutor() as threads:
        for started in [threads.submit(node.start) for node in nodes]:
            started.result(CEILING)
        register(nodes[0].here)

        def gives_a_token(listen: str) -> bool:
            answer = requests.post(
                f"http://{listen}/oauth/token",
                {"grant_type": "client_credentials"},
                auth=("printer", SECRET),
                headers={"Host": listens[0]},
                timeout=CEILING,
            )
            # A busy machine may take too long for the first write, as clients have to expect.
            assert answer.status_code in {200, 503}, answer.text
            return answer.status_code == 200

        for listen in listens:
            wait_until(partial(gives_a_token, listen), f"{listen} gives no token")
        for node in nodes:
            log = (node.here / "log").read_text()
            assert '"level":"error"' not in log, log
