"""Two processes that write the same object with If-Match never lose an update."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.resource.backends.counting import visit
from tests.support.wait import CEILING
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.backends.records import LocalRecords, Representation
from valetkey.resource.objects import notes

ATTEMPTS = 10_000
"""Of both together; each reads the note and writes it with the tag it read."""

_PATIENCE = CEILING


def test_in_ten_thousand_attempts_of_two_processes_no_update_is_lost(
    database_url: str, tmp_path: Path
) -> None:
    async def begin() -> str:
        engine = connect(database_url, directory=tmp_path)
        await migrate(engine, "valetkey.resource.storage.schema")
        records = LocalRecords(engine, notes.OBJECT, SYSTEM.random)
        made = await records.create(visit(), {"title": "Count", "text": "0"}, None)
        await engine.close()
        return made.id

    async def end() -> Representation:
        engine = connect(database_url, directory=tmp_path)
        try:
            return await LocalRecords(engine, notes.OBJECT, SYSTEM.random).find(visit(), note)
        finally:
            await engine.close()

    note = asyncio.run(begin())
    command = [sys.executable, "-m", "tests.resource.backends.counting", database_url, note]
    both = [
        subprocess.Popen(
            [*command, str(ATTEMPTS // 2)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        won = [int(process.communicate(timeout=_PATIENCE)[0]) for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert [process.returncode for process in both] == [0, 0]
    record = asyncio.run(end())
    # Whoever won counted one further: a lost update would be a number that is too small.
    assert json.loads(record.body)["text"] == str(sum(won))
    assert record.etag == f'"{sum(won) + 1}"'
    assert all(0 < wins < ATTEMPTS // 2 for wins in won), won
