"""One of several processes that count in the same note: read it, add one, write with If-Match.

python -m tests.resource.backends.counting DATABASE_URL NOTE_ID ATTEMPTS

Prints how often it won. Nobody who lost a race may have written, nobody who won may be overwritten.
"""

import asyncio
import json
import sys
from pathlib import Path

from valetkey.database.connect import connect
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.resource.backends.records import LocalRecords, Visit
from valetkey.resource.objects import notes
from valetkey.resource.requests.patches import MergePatch
from valetkey.resource.requests.representation import Preconditions
from valetkey.resource.storage.objects import Owner
from valetkey.sdk import Caller

AT_ONCE = 25
NOW = Instant(1_800_000_000)


def visit() -> Visit:
    """A request of ada's."""
    caller = Caller("1001", "printer", Scope(), "at_1", "gr_1", NOW, Instant(NOW + 60))
    return Visit(caller, Secret(""), Owner("user:1001"), NOW)


async def count(records: LocalRecords, note: str, attempts: int) -> int:
    """Try so often; how many of the attempts won."""
    won = 0
    for _ in range(attempts):
        record = await records.find(visit(), note)
        number = int(json.loads(record.body)["text"])
        change = MergePatch({"text": str(number + 1)})
        try:
            await records.change(visit(), note, change, Preconditions(match=(record.etag,)))
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.PRECONDITION_FAILED:
                raise
        else:
            won += 1
    return won


def say(line: str) -> None:
    """Tell the one who started us."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(url: str, note: str, attempts: int) -> None:
    """Count with many at once, after the one who started us said go."""
    engine = connect(url, directory=Path())
    records = LocalRecords(engine, notes.OBJECT, SYSTEM.random)
    await records.find(visit(), note)
    say("ready")
    sys.stdin.readline()
    shares = (count(records, note, attempts // AT_ONCE) for _ in range(AT_ONCE))
    say(str(sum(await asyncio.gather(*shares))))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
