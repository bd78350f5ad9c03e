"""Create the engine for a database URL, and trace its transactions. A new engine is a line here."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from valetkey.database.engine import Connection, Engine, Row, T, Timeouts
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.tracing import Span, SpanKind, current_span

Connector = Callable[[str, Path, int, bool, Timeouts, Sequence[str]], Engine]
_TIMEOUTS = Timeouts()


def connect(
    url: str,
    *,
    directory: Path,
    pool_size: int = 4,
    begins: bool = True,
    timeouts: Timeouts = _TIMEOUTS,
    replicas: Sequence[str] = (),
) -> Engine:
    """Return the engine for `url`; the calling thread may wait for a disk, never for a network.

    A relative SQLite path is resolved against `directory`. `pool_size` is the maximum number of
    connections that one process opens to a PostgreSQL server; `replicas` are the URLs of its
    streaming replicas. A missing SQLite file is created only
    if `begins`. Call it after forking, because connections do not survive a fork. Raises
    `OperatorError` for a URL that names no database, and `DatabaseUnavailable` if the file cannot
    be opened. An unreachable PostgreSQL server is noticed by the first transaction.
    """
    scheme = url.partition("://")[0]
    connector = ENGINES.get(scheme)
    if connector is None:
        # The URL is not repeated: it may contain a password.
        schemes = ", ".join(f"{name}://" for name in ENGINES)
        raise OperatorError(f"the URL of a database starts with one of {schemes}", "database")
    return connector(url, directory, pool_size, begins, timeouts, replicas)


def _sqlite(
    url: str,
    directory: Path,
    pool_size: int,
    begins: bool,
    timeouts: Timeouts,
    replicas: Sequence[str],
) -> Engine:
    from valetkey.database.sqlite import SQLite  # noqa: PLC0415 - only the engine in use is loaded

    del replicas  # the settings say none for a file
    name = url.removeprefix("sqlite:///")
    if name == url or not name or name == ":memory:":
        raise OperatorError("write sqlite:///file.db or sqlite:////absolute/file.db", "database")
    # Pyright takes `async def` in a protocol for the built-in coroutine type and nothing wider.
    return SQLite(  # pyright: ignore[reportReturnType]
        directory / name, begins=begins, timeouts=timeouts
    )


def _postgres(
    url: str,
    directory: Path,
    pool_size: int,
    begins: bool,
    timeouts: Timeouts,
    replicas: Sequence[str],
) -> Engine:
    if find_spec("psycopg") is None:
        raise OperatorError(
            "PostgreSQL needs its driver: pip install 'valetkey[postgres]'", "database"
        )
    from valetkey.database.postgres import Postgres  # noqa: PLC0415 - an optional driver

    return Postgres(  # pyright: ignore[reportReturnType]
        url, size=pool_size, timeouts=timeouts, replicas=replicas
    )


ENGINES: Mapping[str, Connector] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)
"""For each URL scheme, the function that creates its engine."""


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
        self.check_identity: Callable[[], str] = engine.check_identity
        self.failures: Callable[[], int] = engine.failures
        self.refuse: Callable[[str], None] = engine.refuse
        self.self_test = engine.self_test
        self.has_replica: Callable[[], bool] = engine.has_replica
        self.sizes: Callable[[], Coroutine[Any, Any, Mapping[str, int]]] = engine.sizes
        self.backup: Callable[[str], Coroutine[Any, Any, None]] = engine.backup
        self.close: Callable[[], Coroutine[Any, Any, None]] = engine.close
        self.change_schema = engine.change_schema

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        return self._run("read", self._engine.read, work)

    def read_one(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        return self._run("read", self._engine.read_one, work)

    def read_replica(self, work: Callable[[Connection], T | None]) -> Coroutine[Any, Any, T | None]:
        return self._run("read replica", self._engine.read_replica, work)

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
        span = request.child(f"transaction {name}", SpanKind.CLIENT)
        span.set("db.system.name", self._system)

        def statements(db: Connection) -> T:
            with span.child("statements", SpanKind.CLIENT) as batch:
                batch.set("db.system.name", self._system)
                return work(db)

        return _ending(span, run(statements))


async def _ending(span: Span, transaction: Coroutine[Any, Any, T]) -> T:
    with span:
        return await transaction
