"""`python -m bench.replicas`: CPU of PostgreSQL for introspection, with and without a replica.

Starts a primary and a streaming replica of its own. Each token is introspected once, so that no
answer is cached. Prints microseconds of CPU for each introspection: of the primary, of the replica
and of this process, which is server and client.
"""

import argparse
import asyncio
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from tests.support import postgres
from tests.support.harness import Harness, harness
from valetkey.config.settings import AuthorizationSettings

_TICKS = os.sysconf("SC_CLK_TCK")
_AT_ONCE = 16


def main() -> None:
    """Measure in turn, twice."""
    parser = argparse.ArgumentParser(prog="python -m bench.replicas", description=__doc__)
    parser.add_argument("--tokens", type=int, default=3_000)
    count = parser.parse_args().tokens
    print("microseconds     primary  replica  process")
    for name in ("no replica", "a replica") * 2:
        asyncio.run(_measure(name, count, has_replica=name == "a replica"))


async def _measure(name: str, count: int, *, has_replica: bool) -> None:
    with (
        postgres.own_server() as primary,
        postgres.standby(primary, "second") as standby,
        TemporaryDirectory() as folder,
    ):
        replicas = (postgres.url(standby, "postgres"),) if has_replica else ()
        async with harness(
            Path(folder),
            postgres.url(primary, "postgres"),
            authorization=AuthorizationSettings(replicas=replicas),
        ) as it:
            tokens = await _issue(it, count)
            _replay(primary, standby)
            before = _cpu(primary), _cpu(standby), time.process_time()
            await asyncio.gather(*[_introspect(it, tokens) for _ in range(_AT_ONCE)])
            after = _cpu(primary), _cpu(standby), time.process_time()
    used = [(b - a) / count * 1e6 for a, b in zip(before, after, strict=True)]
    print(f"{name:14} {used[0]:9.0f}{used[1]:9.0f}{used[2]:9.0f}", flush=True)


async def _issue(it: Harness, count: int) -> list[str]:
    await it.client("svc", grant_types=("client_credentials",), access_token_format="reference")
    tokens: list[str] = []
    while len(tokens) < count:
        tokens += await asyncio.gather(*[it.own_token("svc") for _ in range(_AT_ONCE)])
    return tokens[:count]


async def _introspect(it: Harness, tokens: list[str]) -> None:
    while tokens:
        if not (await it.introspect(tokens.pop()))["active"]:
            message = "a live token is inactive"
            raise SystemExit(message)


def _replay(primary: Path, standby: Path) -> None:
    with (
        psycopg.connect(postgres.url(primary, "postgres"), autocommit=True) as one,
        psycopg.connect(postgres.url(standby, "postgres"), autocommit=True) as other,
    ):
        at = one.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        query = "SELECT 1 WHERE pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while other.execute(query, at).fetchone() is None:
            time.sleep(0.1)


def _cpu(folder: Path) -> float:
    """Return the seconds that the processes of a server have used so far."""
    total = 0
    for pid in postgres.processes(folder / "data"):
        used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(used[11]) + int(used[12])
    return total / _TICKS


if __name__ == "__main__":
    main()
