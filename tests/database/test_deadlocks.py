"""PostgreSQL: transactions that lock in opposite orders are repeated until all are written."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import lock_order
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Lock
from valetkey.database.postgres import Postgres

_WRONG_ORDER = """
def work(db):
    db.share("SELECT :uid", uid=1001)
    db.share(Lock.REGISTER)
"""


def test_a_transaction_that_locks_a_user_before_the_register_fails_its_test(
    sqlite_url: str, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"Lock": Lock}
    exec(compile(_WRONG_ORDER, "/valetkey/authorization/wrong.py", "exec"), names)

    async def story() -> None:
        engine = connect(sqlite_url, directory=tmp_path)
        await engine.write(names["work"])
        await engine.close()

    asyncio.run(story())
    assert len(lock_order.violations) == 1
    lock_order.violations.clear()


def test_transactions_that_deadlock_again_and_again_are_all_written(postgres_url: str) -> None:
    # The server looks for a deadlock after this many milliseconds; by default after a second.
    url = f"{postgres_url}&options=-c%20deadlock_timeout%3D20"

    def change(first: int, second: int) -> Callable[[Connection], None]:
        def work(db: Connection) -> None:
            for row_id in (first, second):
                db.run("UPDATE a SET text = text || '.' WHERE id = :id", id=row_id)
                time.sleep(0.01)

        return work

    async def story() -> None:
        engines = [Postgres(url, size=4), Postgres(url, size=4)]
        await engines[0].change_schema(
            lambda db: db.run("CREATE TABLE a (id BIGINT PRIMARY KEY, text TEXT NOT NULL)")
        )
        await engines[0].write(lambda db: db.run("INSERT INTO a VALUES (1, ''), (2, '')"))
        orders = [(1, 2), (2, 1)] * 12
        await asyncio.gather(
            *(engines[n % 4 // 2].write(change(*order)) for n, order in enumerate(orders))
        )
        rows = await engines[0].read(lambda db: db.rows("SELECT text FROM a"))
        assert [row[0] for row in rows] == ["." * 24] * 2
        for engine in engines:
            await engine.close()

    asyncio.run(story())


def test_schema_change_that_is_repeated_still_waits_without_a_limit(postgres_url: str) -> None:
    """Running servers hold locks for a moment, and a migration that gives up stops the start."""

    async def story() -> None:
        engine, limits = Postgres(postgres_url, size=1), list[str]()

        def work(db: Connection) -> None:
            row = db.row("SELECT current_setting('lock_timeout')")
            assert row is not None
            limits.append(row[0])
            if len(limits) == 1:
                db.run("DO 'BEGIN RAISE EXCEPTION ''x'' USING ERRCODE = ''40P01''; END'")

        await engine.change_schema(work)
        assert limits == ["0", "0"]
        await engine.close()

    asyncio.run(story())
