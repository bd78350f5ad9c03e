"""Create the engine for a database URL. A new engine takes one line here."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from valetkey.database.engine import Engine, Timeouts
from valetkey.kernel.refusal import Mistake

Connector = Callable[[str, Path, int, bool, Timeouts], Engine]
_TIMEOUTS = Timeouts()


def connect(
    url: str,
    *,
    directory: Path,
    pool_size: int = 4,
    begins: bool = True,
    timeouts: Timeouts = _TIMEOUTS,
) -> Engine:
    """Return the engine for `url`; the calling thread may wait for a disk, never for a network.

    A relative SQLite path is resolved against `directory`. `pool_size` is the maximum number of
    connections that one process opens to a PostgreSQL server. A missing SQLite file is created only
    if `begins`. Call it after forking, because connections do not survive a fork. Raises `Mistake`
    for a URL that names no database, and `DatabaseUnavailable` if the file cannot be opened. An
    unreachable PostgreSQL server is noticed by the first transaction.
    """
    scheme = url.partition("://")[0]
    connector = ENGINES.get(scheme)
    if connector is None:
        # The URL is not repeated: it may contain a password.
        known = ", ".join(f"{name}://" for name in ENGINES)
        raise Mistake(f"the URL of a database starts with one of {known}", "database")
    return connector(url, directory, pool_size, begins, timeouts)


def _sqlite(url: str, directory: Path, pool_size: int, begins: bool, timeouts: Timeouts) -> Engine:
    from valetkey.database.sqlite import SQLite  # noqa: PLC0415 - only the engine in use is loaded

    name = url.removeprefix("sqlite:///")
    if name == url or not name or name == ":memory:":
        raise Mistake("write sqlite:///file.db or sqlite:////absolute/file.db", "database")
    # Pyright takes `async def` in a protocol for the built-in coroutine type and nothing wider.
    return SQLite(  # pyright: ignore[reportReturnType]
        directory / name, begins=begins, timeouts=timeouts
    )


def _postgres(
    url: str, directory: Path, pool_size: int, begins: bool, timeouts: Timeouts
) -> Engine:
    if find_spec("psycopg") is None:
        raise Mistake("PostgreSQL needs its driver: pip install 'valetkey[postgres]'", "database")
    from valetkey.database.postgres import Postgres  # noqa: PLC0415 - an optional driver

    return Postgres(  # pyright: ignore[reportReturnType]
        url, size=pool_size, timeouts=timeouts
    )


ENGINES: Mapping[str, Connector] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)
"""For each URL scheme, the function that creates its engine."""
