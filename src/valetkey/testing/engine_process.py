"""The second process of the engine conformance tests: redeems, writes, migrates.

`python -m valetkey.testing.engine_process spend URL` says `ready`, waits for a line, then goes.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen
from types import MappingProxyType
from typing import Any

from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.database.migrate import migrate
from valetkey.testing.engine_story import VOUCHERS, adding, spend

SCHEMA = "valetkey.authorization.storage.schema"
_AT_ONCE = 8


@contextmanager
def other_process(job: str, url: str) -> Generator[Popen[str]]:
    """Start a process that waits for the order to do `job`; kill it if it does not end."""
    command = (sys.executable, "-m", "valetkey.testing.engine_process", job, url)
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:  # noqa: S603 - ourselves
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise AssertionError(f"the process that was to {job} did not come up")
            yield process
        finally:
            process.kill()


def order(process: Popen[str]) -> None:
    """Tell the process to begin."""
    if process.stdin is not None:
        process.stdin.write("go\n")
        process.stdin.flush()


async def _spend(engine: Engine) -> None:
    """Try to redeem each voucher eight times concurrently; print those redeemed."""
    for voucher in range(VOUCHERS):
        asks = (engine.write(spend(voucher, str(name))) for name in range(_AT_ONCE))
        for won in await asyncio.gather(*asks):
            if won:
                _say(voucher)


async def _write(engine: Engine) -> None:
    """Write until killed; print the number of each acknowledged note."""
    numbers = count()

    async def one() -> None:
        for number in numbers:
            await engine.write(adding(number))
            _say(number)

    await asyncio.gather(*(one() for _ in range(_AT_ONCE)))


async def _migrate(engine: Engine) -> None:
    await migrate(engine, SCHEMA)


async def _revise(engine: Engine) -> None:
    await engine.write(lambda db: db.run("UPDATE revision SET number = number + 1"))


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


JOBS: Mapping[str, Callable[[Engine], Coroutine[Any, Any, None]]] = MappingProxyType(
    {"spend": _spend, "write": _write, "migrate": _migrate, "revise": _revise}
)
"""The jobs that the other process can do."""


async def _main(job: str, url: str) -> None:
    _say("ready")
    sys.stdin.readline()
    engine = connect(url, directory=Path.cwd())
    await JOBS[job](engine)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
