"""PostgreSQL: a pool of threads with a connection each, several works in one transaction."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from valetkey.database.engine import Connection, T, refuse_nesting
from valetkey.database.postgres_connection import parse_url
from valetkey.database.postgres_pool import Pool
from valetkey.database.postgres_revision import Revision
from valetkey.database.postgres_session import Kind
from valetkey.kernel.refusal import Mistake


class Postgres:
    """A PostgreSQL database, as an `engine.Engine`. Connects when it is first used."""

    def __init__(self, url: str, *, size: int) -> None:
        """Use at most `size` connections, and one more to hear of changes. Raises `Mistake`."""
        told = parse_url(url)
        self._revision = Revision(told)
        self._pool = Pool(told, size, self._revision.advance)

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read`. Raises `Overloaded`."""
        # Refused here and not in the coroutine: a work that forgets to await it must fail too.
        refuse_nesting()
        return self._pool.run(Kind.READ, work)

    def scan(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.scan`; for a minute at most. Raises `Overloaded`."""
        refuse_nesting()
        return self._pool.run(Kind.SCAN, work)

    def write(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.write`. Raises `Overloaded`."""
        refuse_nesting()
        return self._pool.run(Kind.WRITE, work)

    def change_schema(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.change_schema`."""
        refuse_nesting()
        return self._pool.run(Kind.SCHEMA, work)

    def changed(self) -> int:
        """See `Engine.changed`."""
        return self._revision.number()

    async def backup(self, path: str) -> None:
        """Raise `Mistake`: PostgreSQL has a tool of its own for that."""
        raise Mistake(f"use PostgreSQL's own: pg_dump --format=custom --file={path} DATABASE_URL")

    async def close(self) -> None:
        """See `Engine.close`."""
        await asyncio.to_thread(self._pool.close)
        await asyncio.to_thread(self._revision.close)
