"""Conformance tests of database engines. An engine is tested by naming a fresh database.

class TestSQLite(EngineConformance):
    @pytest.fixture
    def engine_url(self, tmp_path): return f"sqlite:///{tmp_path}/test.db"
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from valetkey.database.engine import (
    Connection,
    ConstraintViolated,
    DatabaseUnavailable,
    Engine,
    Overloaded,
    ReadOnly,
    UnstorableValue,
)
from valetkey.database.migrate import find
from valetkey.testing.engine_look_conformance import UNSTORABLE, EngineLookConformance
from valetkey.testing.engine_story import (
    SCHEMA,
    TABLES,
    VOUCHERS,
    add,
    adding,
    check,
    elsewhere,
    fill,
    notes,
    opened,
    opening,
    order,
    other_process,
    raises,
    read,
    run_on_engine,
    runners,
    same,
    select_one,
    spend,
    write,
)

_THREADS = 16
_TEXTS = ("", "ada", "é ß 漢 \U0001f511", "100 % :name 'quoted' \"too\" -- \\", "line\nline\ttab")
_NUMBERS = (None, 0, -1, 2**31, 2**63 - 1, -(2**63))


class EngineConformance(EngineLookConformance):
    """Test values, concurrent writes, rollback, refusals and overload, and the suite itself.

    Give it a pytest fixture `engine_url`: a database that exists for one test alone.
    """

    def test_written_values_are_read_unchanged(self, engine_url: str) -> None:
        """Every text and every 64-bit integer is read as it was written."""

        async def story(engine: Engine) -> None:
            rows = [
                (number * 10 + index, text, value)
                for number, text in enumerate(_TEXTS)
                for index, value in enumerate(_NUMBERS)
            ]
            await engine.write(lambda db: [add(db, *row) for row in rows])
            every = "SELECT id, text, number FROM notes ORDER BY id"
            for runner in (engine.read, engine.scan, engine.write):
                same(list(await runner(lambda db: db.rows(every))), rows)

        run_on_engine(engine_url, story)

    def test_results_are_text_integers_and_none(self, engine_url: str) -> None:
        """Sums are integers and comparisons are 0 or 1 on every engine."""

        async def story(engine: Engine) -> None:
            def work(db: Connection) -> None:
                add(db, 1, "one", 2**40)
                add(db, 2, "two", 2**40)
                row = db.row(
                    "SELECT sum(number), count(*), max(text), sum(number) > 5, min(number) < 0,"
                    " EXISTS (SELECT 1 FROM notes) FROM notes"
                )
                same(row, (2**41, 2, "two", 1, 0, 1))
                kinds = [type(value).__name__ for value in row or ()]
                same(kinds, ["int", "int", "str", "int", "int", "int"])

            await engine.write(work)

        run_on_engine(engine_url, story)

    def test_run_returns_number_of_changed_rows(self, engine_url: str) -> None:
        """The number of changed rows shows a transaction that it lost a race."""

        async def story(engine: Engine) -> None:
            def work(db: Connection) -> None:
                insert = "INSERT INTO notes (id, text) VALUES (:id, 'x') ON CONFLICT DO NOTHING"
                same(db.run(insert, id=1), 1)
                same(db.run(insert, id=1), 0)
                same(db.run(insert, id=2), 1)
                same(db.run("UPDATE notes SET text = 'y' WHERE id > :id", id=0), 2)
                same(db.run("UPDATE notes SET text = 'y' WHERE id > :id", id=9), 0)
                same(db.run("SELECT id FROM notes"), 0)
                same(db.run("CREATE TABLE more (id BIGINT PRIMARY KEY)"), 0)
                same(list(db.rows("UPDATE notes SET text = 'z' WHERE id = :id", id=1)), [])
                same(db.row("DELETE FROM notes WHERE id = :id RETURNING text", id=1), ("z",))
                same(db.row("DELETE FROM notes WHERE id = :id RETURNING text", id=1), None)
                same(db.run("DELETE FROM notes"), 1)

            await engine.change_schema(work)

        run_on_engine(engine_url, story)

    def test_read_uses_one_snapshot(self, engine_url: str) -> None:
        """Concurrent commits are not visible, however often a read repeats its queries."""

        async def story(engine: Engine) -> None:
            def read_state(db: Connection) -> None:
                same(db.row("SELECT count(*) FROM notes"), (0,))
                elsewhere(lambda: engine.write(adding(1)))
                same(db.row("SELECT count(*) FROM notes"), (0,))

            await engine.scan(read_state)
            same(await notes(engine), 1)

        run_on_engine(engine_url, story)

    def test_exactly_one_of_16_threads_redeems(self, engine_url: str) -> None:
        """Each thread has its own event loop; all start together, voucher by voucher."""
        with opened(engine_url, tables=TABLES) as engine:
            asyncio.run(fill(engine))
            line = threading.Barrier(_THREADS)

            def runner(number: int) -> int:
                won = 0
                for voucher in range(VOUCHERS):
                    line.wait()
                    won += asyncio.run(write(engine, spend(voucher, str(number))))
                return won

            with ThreadPoolExecutor(_THREADS) as threads:
                same(sum(threads.map(runner, range(_THREADS))), VOUCHERS)

    def test_exactly_one_of_two_processes_redeems(self, engine_url: str) -> None:
        """Both processes redeem every voucher concurrently; each voucher has one winner."""
        run_on_engine(engine_url, fill)
        with other_process("spend", engine_url) as one, other_process("spend", engine_url) as other:
            order(one)
            order(other)
            won = [line for process in (one, other) for line in process.communicate()[0].split()]
        same(sorted(won, key=int), [str(voucher) for voucher in range(VOUCHERS)])

    def test_suite_detects_check_before_write(self, engine_url: str) -> None:
        """Check the suite itself: checking first and writing later redeems a voucher twice."""
        with opened(engine_url, tables=TABLES) as engine:
            asyncio.run(fill(engine))
            line = threading.Barrier(_THREADS)

            def naive(number: int) -> bool:
                spent_by = "SELECT spent_by FROM vouchers WHERE id = 1"
                row = asyncio.run(read(engine, lambda db: db.row(spent_by)))
                line.wait()
                if row != (None,):
                    return False
                update = "UPDATE vouchers SET spent_by = :name WHERE id = 1"
                asyncio.run(write(engine, lambda db: db.run(update, name=str(number))))
                return True

            with ThreadPoolExecutor(_THREADS) as threads:
                check(sum(threads.map(naive, range(_THREADS))) > 1, "the naive way won once only")

    def test_exception_rolls_back_its_own_transaction_only(self, engine_url: str) -> None:
        """Transactions that raise write nothing, even if they share a commit with others."""

        async def story(engine: Engine) -> None:
            def work(number: int) -> Callable[[Connection], int]:
                def inner(db: Connection) -> int:
                    add(db, number)
                    db.send("UPDATE notes SET text = 'sent' WHERE id = :id", id=number)
                    if number % 3 == 0:
                        raise LookupError(number)
                    return number

                return inner

            writes = (engine.write(work(number)) for number in range(60))
            answers = await asyncio.gather(*writes, return_exceptions=True)
            for number, answer in enumerate(answers):
                same(isinstance(answer, LookupError), number % 3 == 0)
                check(isinstance(answer, LookupError) or answer == number, str(answer))
            rows = await engine.read(lambda db: db.rows("SELECT id, text FROM notes ORDER BY id"))
            same(list(rows), [(number, "sent") for number in range(60) if number % 3])

        run_on_engine(engine_url, story)

    def test_returned_refusal_is_committed(self, engine_url: str) -> None:
        """The writes of a transaction that returns a refusal are committed."""

        async def story(engine: Engine) -> None:
            def refuse(db: Connection) -> str:
                db.run("UPDATE vouchers SET spent_by = 'revoked' WHERE id = 1")
                return "refused"

            await fill(engine)
            same(await engine.write(refuse), "refused")
            spent_by = "SELECT spent_by FROM vouchers WHERE id = 1"
            same(await engine.read(lambda db: db.row(spent_by)), ("revoked",))

        run_on_engine(engine_url, story)

    def test_violated_constraint_fails_its_own_transaction_only(self, engine_url: str) -> None:
        """A statement whose result was not awaited fails at the commit."""

        async def story(engine: Engine) -> None:
            await engine.write(adding(0))
            twice = "INSERT INTO notes (id, text) VALUES (0, 'again')"
            works: list[Callable[[Connection], object]] = [
                adding(number) for number in range(1, 31)
            ]
            works[5] = lambda db: db.run(twice)
            works[15] = lambda db: db.send(twice)
            works[25] = lambda db: [db.rows(twice), db.rows("SELECT id FROM notes")]
            answers = await asyncio.gather(
                *(engine.write(work) for work in works), return_exceptions=True
            )
            for index, answer in enumerate(answers):
                same(isinstance(answer, ConstraintViolated), index in {5, 15, 25})
            same(await notes(engine), 28)

        run_on_engine(engine_url, story)

    def test_caught_database_error_fails_the_transaction(self, engine_url: str) -> None:
        """A transaction is never written in part, even if the work catches the error."""

        async def story(engine: Engine) -> None:
            def work(db: Connection) -> str:
                add(db, 1)
                with contextlib.suppress(ConstraintViolated):
                    add(db, 1)
                with contextlib.suppress(ConstraintViolated):
                    add(db, 2)
                return "done"

            await raises(ConstraintViolated, engine.write, work)
            same(await notes(engine), 0)

        run_on_engine(engine_url, story)

    def test_read_cannot_write(self, engine_url: str) -> None:
        """A write in a read fails, and the connection can be used afterwards."""

        async def story(engine: Engine) -> None:
            for _ in range(10):
                for runner in (engine.read, engine.scan):
                    await raises(ReadOnly, runner, adding(1))
            for number in range(10):
                await engine.write(adding(number))
            same(await notes(engine), 10)

        run_on_engine(engine_url, story)

    def test_nested_transaction_is_refused(self, engine_url: str) -> None:
        """A nested transaction would wait for itself."""

        async def story(engine: Engine) -> None:
            for outer in runners(engine):
                for inner in runners(engine):
                    await raises(RuntimeError, outer, opening(inner))

        run_on_engine(engine_url, story)

    def test_connection_is_unusable_after_its_transaction(self, engine_url: str) -> None:
        """A connection cannot be used after its transaction."""

        async def story(engine: Engine) -> None:
            kept: list[Connection] = []
            for runner in runners(engine):
                await runner(kept.append)
                await raises(RuntimeError, runner, lambda _: select_one(kept[-1]))

        run_on_engine(engine_url, story)

    def test_unstorable_values_are_refused(self, engine_url: str) -> None:
        """Every engine refuses the same values before a statement runs; nothing is written."""

        async def story(engine: Engine) -> None:
            def work(value: object) -> Callable[[Connection], int]:
                def inner(db: Connection) -> int:
                    add(db, 1)
                    return db.run("UPDATE notes SET text = :value", value=value)

                return inner

            for value in UNSTORABLE:
                await raises(UnstorableValue, engine.write, work(value))
            same(await notes(engine), 0)

        run_on_engine(engine_url, story)

    def test_concurrent_processes_migrate_once(self, engine_url: str) -> None:
        """All four processes start; the migrations are applied once."""
        with contextlib.ExitStack() as stack:
            four = [stack.enter_context(other_process("migrate", engine_url)) for _ in range(4)]
            for process in four:
                order(process)
            same([process.wait() for process in four], [0, 0, 0, 0])
        with opened(engine_url) as engine:
            numbers = "SELECT number FROM migrations ORDER BY number"
            rows = asyncio.run(read(engine, lambda db: db.rows(numbers)))
            same([row[0] for row in rows], [migration.number for migration in find(SCHEMA)])

    def test_acknowledged_writes_survive_sigkill(self, engine_url: str) -> None:
        """After SIGKILL in the middle of many writes, every acknowledged number is stored."""
        run_on_engine(engine_url, fill)
        with other_process("write", engine_url) as other:
            order(other)
            lines = other.stdout
            numbers = [next(lines) for _ in range(500)] if lines else []
            other.kill()
            numbers += list(lines or ())
        # The last line may have been cut in two by the kill.
        acknowledged = {int(line) for line in numbers if line.endswith("\n")}
        check(len(acknowledged) >= 500, "the other process did not write")

        async def story(engine: Engine) -> None:
            rows = await engine.scan(lambda db: db.rows("SELECT id FROM notes"))
            ids: set[int] = {row[0] for row in rows}
            same(sorted(acknowledged - ids), [])

        run_on_engine(engine_url, story, tables=())

    def test_full_queue_refuses_work_at_once(self, engine_url: str) -> None:
        """A full queue refuses further work, and completes what it accepted."""

        async def story(engine: Engine) -> None:
            gate = threading.Event()

            def work(db: Connection) -> None:
                gate.wait()
                db.row("SELECT 1")

            tasks = [asyncio.create_task(write(engine, work)) for _ in range(5_000)]
            # All tasks begin in the first turn of the loop; the first refusal ends the wait.
            await asyncio.wait(tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            refused = [task for task in tasks if task.done()]
            waiting = [task for task in tasks if not task.done()]
            check(bool(refused), "five thousand transactions wait")
            for task in refused:
                check(isinstance(task.exception(), Overloaded), str(task.exception()))
            gate.set()
            await asyncio.gather(*waiting)

        run_on_engine(engine_url, story)

    def test_close_finishes_accepted_work(self, engine_url: str) -> None:
        """An engine that is closed finishes what it accepted, and refuses everything else."""

        async def story(engine: Engine) -> None:
            tasks = [asyncio.create_task(write(engine, adding(number))) for number in range(200)]
            await asyncio.sleep(0)
            await engine.close()
            await asyncio.gather(*tasks)
            for runner in runners(engine):
                await raises(DatabaseUnavailable, runner, select_one)

        run_on_engine(engine_url, story)
