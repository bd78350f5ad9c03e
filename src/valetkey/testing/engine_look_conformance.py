"""Conformance tests of an engine's cached reads, marks and long reads."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine, Overloaded, ReadOnly, Row, UnstorableValue
from valetkey.testing.engine_story import (
    adding,
    check,
    notes,
    order,
    other_process,
    raises,
    run_on_engine,
    same,
    scan,
    select_one,
)

UNSTORABLE: tuple[object, ...] = (
    True,
    1.5,
    b"bytes",
    "a\0b",
    "half \ud800",
    2**63,
    -(2**63) - 1,
    [],
    object(),
)

_CEILING = 60.0
"""Seconds to wait for a change before a test fails."""


class EngineLookConformance:
    """Test how an engine reports changes, and its reads of single rows."""

    def test_change_is_noticed_by_every_process(self, engine_url: str) -> None:
        """A change is noticed at once in the process that made it, and soon in the others."""

        async def story(engine: Engine) -> None:
            engine.changed()
            await asyncio.sleep(0.7)
            revise = "UPDATE revision SET number = number + 1"
            for _ in range(5):
                before = engine.changed()
                await engine.write(lambda db: db.run(revise))
                check(engine.changed() != before, "a write of this process went unnoticed")
            await asyncio.sleep(0.7)
            before = engine.changed()
            await engine.write(adding(1))
            same(engine.changed(), before)
            with other_process("revise", engine_url) as other:
                order(other)
                other.wait()
            deadline = time.monotonic() + _CEILING
            while engine.changed() == before:
                check(time.monotonic() < deadline, "another process's write went unnoticed")
                await asyncio.sleep(0.02)

        run_on_engine(engine_url, story)

    def test_mark_changes_with_every_commit(self, engine_url: str) -> None:
        """The mark changes at once, in any process; an engine without marks returns None."""

        async def story(engine: Engine) -> None:
            await engine.write(adding(1))
            # An engine may have no mark before its first read.
            same(await notes(engine), 1)
            same(await engine.row("SELECT count(*) FROM notes"), (1,))
            if engine.mark() is None:
                return
            for number in range(2, 20):
                before = engine.mark()
                same(await notes(engine), number - 1)
                same(engine.mark(), before)
                await engine.write(adding(number))
                check(engine.mark() != before, "a commit of this process went unnoticed")
            before = engine.mark()
            with other_process("revise", engine_url) as other:
                order(other)
                other.wait()
            check(engine.mark() != before, "another process's commit went unnoticed")

        run_on_engine(engine_url, story)

    def test_row_runs_one_read_only_statement(self, engine_url: str) -> None:
        """`row` takes parameters as a transaction does, and cannot write."""

        async def story(engine: Engine) -> None:
            statement = "SELECT text FROM notes WHERE id = :id"
            same(await engine.row(statement, id=1), None)
            await engine.write(adding(1))
            check(await engine.row(statement, id=1) is not None, "the row is not there")

            def asking(sql: str, value: object) -> Callable[[object], Awaitable[object]]:
                return lambda _: engine.row(sql, id=value)

            for value in UNSTORABLE:
                await raises(UnstorableValue, asking(statement, value), select_one)
            await raises(
                ReadOnly, asking("UPDATE notes SET text = 'x' WHERE id = :id", 1), select_one
            )
            same(await notes(engine), 1)

        run_on_engine(engine_url, story)

    def test_read_one_refuses_a_second_statement(self, engine_url: str) -> None:
        """A second statement would see another snapshot."""
        count = "SELECT count(*) FROM notes"

        async def story(engine: Engine) -> None:
            same(await engine.read_one(lambda db: db.row(count)), (0,))
            same(await engine.read_one(lambda _: None), None)
            many = [engine.read_one(lambda db: db.rows(count)) for _ in range(40)]
            same([list(rows) for rows in await asyncio.gather(*many)], [[(0,)]] * 40)
            await raises(RuntimeError, engine.read_one, lambda db: (db.row(count), db.row(count)))

        run_on_engine(engine_url, story)

    def test_exclusive_lock_waits_for_shared_locks(self, engine_url: str) -> None:
        """A transaction that excludes a number waits for all that share it."""
        count = "SELECT COUNT(*) FROM notes"
        shared, ended = threading.Event(), threading.Event()

        def issue(db: Connection) -> tuple[Row | None, Row | None]:
            db.share("SELECT :number", number=7)
            before = db.row(count)
            shared.set()
            # Not set in time if the exclusive lock waits for this transaction, as it must.
            ended.wait(0.5)
            return before, db.row(count)

        def end(db: Connection) -> None:
            db.exclude("SELECT :number", number=7)
            db.run("DELETE FROM notes")

        def wait_and_end() -> None:
            shared.wait()
            asyncio.run(end_there())
            ended.set()

        async def end_there() -> None:
            other = connect(engine_url, directory=Path.cwd())
            try:
                await other.write(end)
            finally:
                await other.close()

        async def story(engine: Engine) -> None:
            await engine.write(
                lambda db: db.run("INSERT INTO notes (id, text) VALUES (:id, 'here')", id=1)
            )
            ending = asyncio.create_task(asyncio.to_thread(wait_and_end))
            before, after = await engine.write(issue)
            await ending
            same(before, after)
            same(await engine.row(count), (0,))

        run_on_engine(engine_url, story)

    def test_wrong_assumption_runs_the_transaction_again(self, engine_url: str) -> None:
        """It runs again also if it raised because of the assumption."""
        ask = "SELECT number FROM revision WHERE name = 'directory'"

        def assuming(number: int, key: int) -> Callable[[Connection], bool]:
            def work(db: Connection) -> bool:
                is_so = db.assume(ask, number)
                if is_so and key < 0:
                    raise KeyError
                db.send(
                    "INSERT INTO notes (id, text) VALUES (:id, :text)", id=key, text=str(int(is_so))
                )
                return is_so

            return work

        def bump(db: Connection) -> bool:
            db.send("UPDATE revision SET number = number + 1 WHERE name = 'directory'")
            return db.assume(ask, 2)

        async def story(engine: Engine) -> None:
            same(await engine.write(assuming(0, 1)), True)
            same(await engine.write(assuming(1, 2)), False)
            # The exception followed from the wrong assumption.
            same(await engine.write(assuming(1, -1)), False)
            mixed = [engine.write(assuming(key % 2, key)) for key in range(3, 35)]
            same(await asyncio.gather(*mixed), [key % 2 == 0 for key in range(3, 35)])
            same(await engine.write(bump), False)
            same(await engine.write(bump), True)
            same(await engine.read(lambda db: db.assume(ask, 3)), False)
            outcomes = await engine.row("SELECT count(*) FROM notes WHERE text = '1'")
            same(outcomes, (17,))

        run_on_engine(engine_url, story)

    def test_query_ahead_sees_earlier_writes(self, engine_url: str) -> None:
        """The rows of a query ahead may be read before or after a later statement, or never."""
        ask = "SELECT count(*) FROM notes WHERE id < :most"
        write = "INSERT INTO notes (id, text) VALUES (:id, 'here')"

        def looking(db: Connection) -> list[object]:
            first = db.ahead(ask, most=10)
            db.send(write, id=1)
            second, third = db.ahead(ask, most=10), db.ahead(ask, most=1)
            db.run(write, id=2)
            last = db.ahead(ask, most=10)
            db.ahead(ask, most=10)
            return [*last(), *third(), *second(), *first(), *first()]

        def failing(db: Connection) -> object:
            query = db.ahead("SELECT nothing FROM notes")
            return query()

        def forgotten(db: Connection) -> None:
            db.ahead("SELECT nothing FROM notes")
            db.send(write, id=4)

        async def story(engine: Engine) -> None:
            same(await engine.write(looking), [(2,), (0,), (1,), (0,), (0,)])
            same(await engine.read(lambda db: db.ahead(ask, most=2)()), [(1,)])
            late = await engine.write(lambda db: db.ahead(ask, most=2))
            try:
                rows = late()
            except RuntimeError:
                # The transaction has ended.
                rows = [(1,)]
            same(rows, [(1,)])
            for work in (failing, forgotten):
                try:
                    await engine.write(work)
                    failed = False
                except Exception:  # noqa: BLE001 - each engine has its own
                    failed = True
                same(failed, True)
            same(await engine.row("SELECT count(*) FROM notes"), (2,))

        run_on_engine(engine_url, story)

    def test_exactly_one_of_64_claims_succeeds(self, engine_url: str) -> None:
        """One claim succeeds, also if the others share a commit with the winner."""

        def claim(key: int) -> Callable[[Connection], bool]:
            def work(db: Connection) -> bool:
                won = db.claim(
                    "INSERT INTO notes (id, text) VALUES (0, 'claimed') ON CONFLICT DO NOTHING"
                )
                db.send(
                    "INSERT INTO notes (id, text) VALUES (:id, :text)",
                    id=key,
                    text="won" if won else "lost",
                )
                return won

            return work

        async def story(engine: Engine) -> None:
            outcomes = await asyncio.gather(*(engine.write(claim(key)) for key in range(1, 65)))
            same(sum(outcomes), 1)
            same(await engine.row("SELECT count(*) FROM notes WHERE text = 'won'"), (1,))
            same(await engine.row("SELECT count(*) FROM notes"), (65,))
            same(await engine.write(claim(-1)), False)

        run_on_engine(engine_url, story)

    def test_once_reads_writes_of_the_shared_commit(self, engine_url: str) -> None:
        """A transaction in a shared commit sees the writes of those before it that were kept."""
        ask = "SELECT number FROM revision WHERE name = 'directory'"

        def number(row: Row | None) -> int:
            return -1 if row is None else row[0]

        def looking(db: Connection) -> int:
            once = number(db.once(ask))
            # Others may commit meanwhile.
            check(once <= number(db.row(ask)), "from nowhere")
            return once

        def raising(amount: int, *, stays: bool) -> Callable[[Connection], int]:
            def work(db: Connection) -> int:
                db.once(ask)
                db.run("UPDATE revision SET number = number + :amount", amount=amount)
                same(db.once(ask), db.row(ask))
                if not stays:
                    raise KeyError
                return looking(db)

            return work

        async def story(engine: Engine) -> None:
            works = [looking, raising(1, stays=True), looking, raising(100, stays=False), looking]
            for outcomes in (0, 6, 12):
                pending = [engine.write(work) for work in works * 6]
                for seen in await asyncio.gather(*pending, return_exceptions=True):
                    fits = isinstance(seen, KeyError) or (
                        isinstance(seen, int) and outcomes <= seen <= outcomes + 6
                    )
                    check(fits, f"{seen!r} after {outcomes}")
            same(await engine.read(looking), 18)

        run_on_engine(engine_url, story)

    def test_cancelled_reports_count_while_queued(self, engine_url: str) -> None:
        """Queued reports of callers that disconnected count towards the limit."""

        async def story(engine: Engine) -> None:
            gate = threading.Event()
            running: list[Connection] = []

            def wait(db: Connection) -> None:
                running.append(db)
                gate.wait()

            async def accepted() -> int:
                """Return how many of four hundred jobs are accepted; then abandon all."""
                tasks = [asyncio.create_task(scan(engine, wait)) for _ in range(400)]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                # A thread that starts later than this would take abandoned jobs from the queue.
                before = -1
                while before < len(running) or not running:
                    before = len(running)
                    await asyncio.sleep(0.05)
                waiting = [task for task in tasks if not task.done()]
                for task in waiting:
                    task.cancel()
                for task in set(tasks) - set(waiting):
                    check(isinstance(task.exception(), Overloaded), str(task.exception()))
                await asyncio.gather(*waiting, return_exceptions=True)
                return len(waiting)

            try:
                first, second = await accepted(), await accepted()
                check(first > 2 * second, f"{first} reports were accepted, then {second}")
            finally:
                gate.set()

        run_on_engine(engine_url, story)
