"""An engine whose transactions are spans of the requests that wait for them."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from valetkey.database.engine import Connection, Engine, Row, T
from valetkey.kernel.tracing import Kind, Span
from valetkey.kernel.waiting import current_span


def traced(engine: Engine, url: str) -> Engine:
    """Return the engine of this database URL with a span for each transaction of sampled requests.

    The span of a transaction has a child for each run of its statements: the time before it was
    spent in the queue, the time after it in the commit.
    """
    system = "sqlite" if url.startswith("sqlite") else "postgresql"
    return _Traced(engine, system)  # pyright: ignore[reportReturnType] - as in `connect`


class _Traced:
    """See `Engine`; what is not a transaction goes to the engine as it is."""

    def __init__(self, engine: Engine, system: str) -> None:
        self._engine = engine
        self._system = system
        self.changed: Callable[[], int] = engine.changed
        self.mark: Callable[[], bytes | None] = engine.mark
        self.look: Callable[[], str] = engine.look
        self.failures: Callable[[], int] = engine.failures
        self.refuse: Callable[[str], None] = engine.refuse
        self.sizes: Callable[[], Coroutine[Any, Any, Mapping[str, int]]] = engine.sizes
        self.backup: Callable[[str], Coroutine[Any, Any, None]] = engine.backup
        self.close: Callable[[], Coroutine[Any, Any, None]] = engine.close
        self.change_schema = engine.change_schema

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        return self._run("read", self._engine.read, work)

    def read_one(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        return self._run("read", self._engine.read_one, work)

    def row(self, sql: str, /, **params: object) -> Coroutine[Any, Any, Row | None]:
        if not current_span().sampled:
            return self._engine.row(sql, **params)
        return self._run("read", self._engine.read_one, lambda db: db.row(sql, **params))

    def scan(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        return self._run("scan", self._engine.scan, work)

    def write(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        return self._run("write", self._engine.write, work)

    def _run(
        self,
        name: str,
        run: Callable[[Callable[[Connection], T]], Coroutine[Any, Any, T]],
        work: Callable[[Connection], T],
    ) -> Coroutine[Any, Any, T]:
        request = current_span()
        if not request.sampled:
            return run(work)
        span = request.child(f"transaction {name}", Kind.CLIENT)
        span.set("db.system.name", self._system)

        def statements(db: Connection) -> T:
            with span.child("statements", Kind.CLIENT) as batch:
                batch.set("db.system.name", self._system)
                return work(db)

        return _ending(span, run(statements))


async def _ending(span: Span, transaction: Coroutine[Any, Any, T]) -> T:
    with span:
        return await transaction
