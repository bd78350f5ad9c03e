"""The copy of a database: preconditions, rows, the check at the end, and the handover.

Each step may be repeated by another process after a crash (docs/decisions/0037).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from valetkey.database import identity
from valetkey.database.copying.dialect import PROGRESS, CopiedTable, Dialect, copied
from valetkey.database.copying.handover import (
    ELSEWHERE,
    begin_target,
    copy_of,
    finish_target,
    freeze_source,
    moved,
    retire_source,
)
from valetkey.database.copying.rows import (
    Digest,
    Key,
    copied_so_far,
    count,
    digest,
    read_page,
    write_page,
)
from valetkey.database.engine import Engine, Row
from valetkey.database.identity import Seen
from valetkey.database.migrate import applied, find, pending
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two databases, with its dialect."""

    engine: Engine
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Digests of a table in both databases, to compare."""

    table: str
    rows: int
    checksum: str


@dataclass(slots=True)
class DatabaseCopy:
    """A copy of the database of one server, whose tables are those of `package`.

    `total` and `done` count rows, from `begin` on.
    """

    source: Side
    target: Side
    package: str
    total: int = field(default=0, init=False)
    done: int = field(default=0, init=False)
    complete: bool = field(default=False, init=False)
    _id: str = field(default="", init=False)
    _tables: Sequence[CopiedTable] = field(default=(), init=False)

    async def inspect(self) -> None:
        """Raise OperatorError if this source cannot be copied to this target; changes nothing."""
        handed = await self._handed()
        self._id = await self.source.engine.scan(copy_of)
        present = {each.name for each in await self.target.engine.scan(self.target.dialect.tables)}
        if PROGRESS in present:
            if self._id not in ("", await self.target.engine.scan(copy_of)):
                raise OperatorError(ELSEWHERE)
        elif present:
            found = await self.target.engine.scan(identity.find) if handed else None
            if handed is None or found is None or found.database != handed.database:
                raise OperatorError("the target is not empty; name an empty database")
            self.complete = True
        elif self._id:
            raise OperatorError(ELSEWHERE)

    async def identity(self) -> Seen | None:
        """Return the identity of the source, or the one that it passed on."""
        return await self.source.engine.scan(lambda db: identity.find(db) or moved(db))

    async def begin(self, fresh: str, now: Instant) -> None:
        """Begin a copy with the id `fresh`, or continue one; the source refuses writes from now on.

        Raises OperatorError if the two databases differ in their tables.
        """
        source, target = self.source, self.target
        if not self._id:
            self._id = fresh
            await target.engine.change_schema(
                lambda db: begin_target(db, target.dialect, self.package, fresh, now)
            )
        await source.engine.change_schema(
            lambda db: freeze_source(db, source.dialect, self._id, now)
        )
        self._tables = copied(await source.engine.scan(source.dialect.tables))
        theirs = copied(await target.engine.scan(target.dialect.tables))
        if sorted(self._tables, key=_name) != sorted(theirs, key=_name):
            raise OperatorError("the tables of the two databases differ: one version made both?")
        for table in self._tables:
            self.total += await source.engine.scan(partial(count, table))

    async def copy(self, report: Callable[[str], None]) -> None:
        """Copy the rows that are missing; call `tell` with the table after each page."""
        known = await self.target.engine.scan(lambda db: copied_so_far(db, self._id))
        self.done = sum(amount for _, amount in known.values())
        for table in self._tables:
            report(table.name)
            after = known[table.name][0]
            while rows := await self._page(table, after):
                await self._store(table, rows, after)
                after = tuple(rows[-1][place] for place in table.places)
                self.done += len(rows)
                report(table.name)

    async def check(self, report: Callable[[str], None]) -> Sequence[TableCheck]:
        """Compare what both databases have of each table. Raises OperatorError for a difference."""
        checks: list[TableCheck] = []
        self.done = 0
        for table in self._tables:

            def add(rows: int, name: str = table.name) -> None:
                self.done += rows
                report(name)

            ours = await digest(self.source.engine, table, add)
            theirs = await digest(self.target.engine, table, lambda _: None)
            if ours != theirs:
                raise OperatorError(_difference(table.name, ours, theirs))
            checks.append(TableCheck(table.name, ours.rows, ours.checksum))
        if self.done != self.total:
            raise OperatorError(f"the source has {self.total} rows, and {self.done} were copied")
        return checks

    async def retire(self) -> Seen:
        """Let no server use the source any more; return the identity that it passed on."""
        source = self.source
        return await source.engine.change_schema(
            lambda db: retire_source(db, source.dialect, self.package, self._id)
        )

    async def finish(self, seen: Seen) -> Seen:
        """Let the servers use the target; return its identity."""
        if self.complete:
            return seen
        return await self.target.engine.change_schema(lambda db: finish_target(db, self._id, seen))

    async def _handed(self) -> Seen | None:
        """Return the identity that the source passed on; None before.

        Raises OperatorError unless its tables are those of this version.
        """
        present = await self.source.engine.scan(self.source.dialect.tables)
        if not present:
            raise OperatorError("the source has no tables")
        known = {each.number for each in find(self.package)}
        if "installation" in {each.name for each in present}:
            handed = await self.source.engine.scan(moved)
            if handed is not None:
                return handed
        if missing := await pending(self.source.engine, self.package):
            names = ", ".join(each.name for each in missing)
            message = f"the source's tables are older than this version ({names}); run: "
            raise OperatorError(f"{message}valetkey database migrate")
        if await self.source.engine.scan(applied) - known:
            raise OperatorError(
                "the source's tables are those of a newer version: copy it with that one"
            )
        return None

    async def _page(self, table: CopiedTable, after: Key | None) -> Sequence[Row]:
        return await self.source.engine.scan(lambda db: read_page(db, table, after))

    async def _store(self, table: CopiedTable, rows: Sequence[Row], after: Key | None) -> None:
        # Without time limits: a slow disk is no reason to give up.
        await self.target.engine.change_schema(
            lambda db: write_page(db, table, rows, copy=self._id, after=after)
        )


def _name(table: CopiedTable) -> str:
    return table.name


def _difference(table: str, ours: Digest, theirs: Digest) -> str:
    found = f"{ours.rows} rows here and {theirs.rows} there"
    if ours.rows == theirs.rows:
        found = f"{ours.rows} rows with different content"
    return (
        f"table {table} was not copied exactly: {found}. Neither database was switched; give the "
        "copy up with --cancel, and begin again"
    )
