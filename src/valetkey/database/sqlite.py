"""The SQLite engine: one writer thread with group commit, readers on the calling thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, cast

import apsw

from valetkey.database.engine import (
    Connection,
    DatabaseUnavailable,
    Overloaded,
    Row,
    SelfTest,
    T,
    Timeouts,
    refuse_nesting,
    run_work,
)
from valetkey.database.sqlite_connection import (
    LogIndex,
    SingleSQLiteStatement,
    SQLiteConnection,
    copy,
    open_reader,
    translate_error,
)
from valetkey.database.sqlite_files import OpenFiles, create_file, files_of, require_private
from valetkey.database.sqlite_writer import Writer
from valetkey.database.statement import storable
from valetkey.kernel.bounded_threads import BoundedThreads, Full
from valetkey.kernel.refusal import OperatorError

LARGEST = 1 << 30
"""Bytes of the largest file that is read for this."""

IS_POSSIBLE = "ENABLE_DBSTAT_VTAB" in apsw.compile_options
"""Whether this SQLite counts its pages; a build of one's own may not."""

_EVERY = 60.0  # seconds
_SHARE = 1_000
"""The time of a measurement is at most one part in so many."""

# Of each page: B-trees with their overflow pages, indexes as parts of their tables.
_SIZES = (
    "SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize) FROM dbstat AS d"
    " LEFT JOIN sqlite_schema AS s ON s.name = d.name WHERE d.aggregate = TRUE GROUP BY 1"
)


class TableSizes:
    """The bytes of each table with its indexes, as measured last."""

    __slots__ = ("_due", "found")

    def __init__(self) -> None:
        """Start without sizes."""
        self.found: Mapping[str, int] = {}
        self._due = 0.0

    def is_due(self, size: int) -> bool:
        """Return whether to measure now; `size` is that of the file. Forgets what is too old."""
        if size > LARGEST or not IS_POSSIBLE:
            self.found = {}
            return False
        return monotonic() >= self._due

    def measure(self, db: Connection) -> None:
        """Read every page."""
        begun = monotonic()
        # Also after a failure.
        self._due = begun + _EVERY
        self.found = dict(db.rows(_SIZES))
        ended = monotonic()
        self._due = max(self._due, ended + _SHARE * (ended - begun))


# Seconds a read may wait for a lock. Readers of a write-ahead log do not wait, except while another
# process recovers or truncates it.
_READ_PATIENCE = 0.05
_COPY_PATIENCE = 5.0
_SCANNERS = 2
# Of half a second each, the last of these waits as long as half of the time limit for reports.
_MOST_SCANS = 128
_TIMEOUTS = Timeouts()


class _Reader:
    """A read connection and its cached state of `changed`. Belongs to one thread."""

    __slots__ = ("mark", "number", "raw", "version")

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self.version = -1
        self.mark: bytes | None = None
        self.number = 0


class SQLite:
    """A SQLite database in a file, as an `engine.Engine`."""

    def __init__(self, path: Path, *, begins: bool = True, timeouts: Timeouts = _TIMEOUTS) -> None:
        """Open the file; if it is missing, create it if this `begins` the database.

        Raises `DatabaseUnavailable`, and `OperatorError` if other users may read its files.
        """
        self._path = path
        try:
            if begins:
                create_file(path)
            require_private(path)
            self._files = OpenFiles(path)
            self._writer = Writer(path, self._files, timeouts)
        except (apsw.Error, OSError) as problem:
            raise DatabaseUnavailable(f"cannot open {path}: {problem}") from problem
        self._this_thread = threading.local()
        self._readers: list[_Reader] = []
        self._readers_turn = threading.Lock()
        self._closed = False
        self._tables = TableSizes()
        self._index: LogIndex | None = None
        self._scanners = BoundedThreads(_SCANNERS, _MOST_SCANS - _SCANNERS, "valetkey-scan")
        self._ordinal = count(1)

    def read(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read`; runs on the calling thread: a hop costs more than a look-up."""
        # Checked here and not in the coroutine: work that forgets to await it must fail too.
        refuse_nesting()
        return self._read(work)

    def read_one(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.read_one`; on the calling thread."""
        refuse_nesting()
        return self._read_one(work)

    def row(self, sql: str, /, **params: object) -> Coroutine[Any, Any, Row | None]:
        """See `Engine.row`; on the calling thread. A single statement is its own snapshot."""
        refuse_nesting()
        return self._row(sql, params)

    def scan(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.scan`; runs on one of two separate threads. Raises `Overloaded`."""
        refuse_nesting()
        return self._on_scanner(lambda: self._snapshot(work))

    def write(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.write`. Raises `Overloaded`."""
        refuse_nesting()
        return self._writer.write(work)

    def change_schema(self, work: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
        """See `Engine.change_schema`."""
        # The write lock is the only lock, and it is not timed once it is taken.
        refuse_nesting()
        return self._writer.write(work, limited=False)

    def mark(self) -> bytes | None:
        """See `Engine.mark`."""
        index = self._index
        return None if index is None or self._files.lost else index.head()

    def changed(self) -> int:
        """See `Engine.changed`."""
        reader = self._reader()
        mark = self.mark()
        if mark is not None and mark == reader.mark:
            return reader.number
        try:
            version = cast("int", reader.raw.pragma("data_version"))
            if version != reader.version:
                reader.version = version
                reader.number = self._revision(reader, version)
            reader.mark = mark
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        return reader.number

    def check_identity(self) -> str:
        """See `Engine.check_identity`."""
        return self._files.compare_files()

    def failures(self) -> int:
        """See `Engine.failures`."""
        return self._writer.failures

    def refuse(self, why: str) -> None:
        """See `Engine.refuse`."""
        self._files.refuse(why)

    async def self_test(self, random: Callable[[int], bytes]) -> SelfTest:
        """See `Engine.self_test`: nothing to test, because SQLite is part of the program."""
        return SelfTest()

    async def sizes(self) -> Mapping[str, int]:
        """See `Engine.sizes`; tables in files of up to 1 GiB, now and then, as far as possible."""
        files = {
            str(file).removeprefix(str(self._path)).removeprefix("-") or "main": state.st_size
            for file, state in files_of(self._path)
        }
        if self._tables.is_due(files.get("main", 0)):
            with suppress(DatabaseUnavailable, Overloaded):
                await self.scan(self._tables.measure)
        return {**self._tables.found, **files}

    def backup(self, path: str) -> Coroutine[Any, Any, None]:
        """See `Engine.backup`; raises `OperatorError` if there is a file at `path`."""
        refuse_nesting()
        return self._on_scanner(lambda: self._copy(Path(path)))

    async def close(self) -> None:
        """See `Engine.close`."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return self._snapshot(work)

    async def _read_one(self, work: Callable[[Connection], T]) -> T:
        return run_work(SingleSQLiteStatement(self._reader().raw, {}), work)

    async def _row(self, sql: str, params: dict[str, object]) -> Row | None:
        try:
            found = self._reader().raw.execute(sql, storable(params)).fetchall()
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        return found[0] if found else None

    def _snapshot(self, work: Callable[[Connection], T]) -> T:
        raw = self._reader().raw
        try:
            raw.execute("BEGIN")
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        try:
            return run_work(SQLiteConnection(raw, {}), work)
        finally:
            if raw.in_transaction:
                raw.execute("ROLLBACK")

    def _reader(self) -> _Reader:
        if self._files.lost:
            raise DatabaseUnavailable(self._files.lost)
        try:
            reader: _Reader = self._this_thread.reader
        except AttributeError:
            return self._new_reader()
        return reader

    def _new_reader(self) -> _Reader:
        with self._readers_turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            try:
                reader = _Reader(open_reader(self._path, patience=_READ_PATIENCE))
                # The first read keeps the log's index open for as long as this connection exists.
                reader.raw.pragma("data_version")
                if self._index is None:
                    self._index = LogIndex.of(self._path)
            except apsw.Error as problem:
                raise translate_error(problem) from problem
            self._readers.append(reader)
        self._this_thread.reader = reader
        return reader

    def _revision(self, reader: _Reader, version: int) -> int:
        try:
            rows = reader.raw.execute("SELECT sum(number) FROM revision").fetchall()
        except apsw.SQLError:
            # The table does not exist yet. Two connections may report equal versions: keep them
            # apart.
            return (next(self._ordinal) << 40) + version
        return cast("int", rows[0][0] or 0)

    async def _on_scanner(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise DatabaseUnavailable("the database is closed")
        try:
            return await self._scanners.run(job)
        except Full:
            raise Overloaded("too many reports wait") from None

    def _copy(self, target: Path) -> None:
        try:
            copy(self._path, target, patience=_COPY_PATIENCE)
        except FileExistsError as problem:
            raise OperatorError(
                f"{target} exists already: name a new file for the backup"
            ) from problem
        except apsw.Error as problem:
            raise translate_error(problem) from problem
        except OSError as problem:
            raise DatabaseUnavailable(f"cannot write {target}: {problem.strerror}") from problem

    def _close(self) -> None:
        self._scanners.close(drop=False)
        with self._readers_turn:
            for reader in self._readers:
                reader.raw.close()
        # Last, because the last connection to close checkpoints the log, and a reader may not
        # write.
        self._writer.close()
        if self._index is not None:
            self._index.release()
