"""The files of a SQLite database: who may read them, and what happens when they vanish."""

import asyncio
import errno
import os
import shutil
import stat
import threading
from itertools import count
from pathlib import Path

import apsw
import pytest

from tests.support.wait import CEILING
from valetkey.database import sqlite, sqlite_connection
from valetkey.database.engine import DatabaseUnavailable
from valetkey.database.migrate import migrate
from valetkey.database.sqlite import SQLite
from valetkey.database.sqlite_connection import (
    copy,
    create_file,
    files_of,
    open_writer,
    replace_with_backup,
    require_private,
)
from valetkey.kernel.refusal import OperatorError

_TABLE = "CREATE TABLE a (id BIGINT PRIMARY KEY)"


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "new" / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        await engine.backup(str(tmp_path / "new" / "copy.db"))
        files = list((tmp_path / "new").iterdir())
        assert len(files) > 2
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
        await engine.close()

    before = os.umask(0)
    try:
        asyncio.run(story())
    finally:
        os.umask(before)


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_files_that_others_may_read_are_refused(tmp_path: Path, end: str) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        file = tmp_path / f"a.db{end}"
        for mode in (0o640, 0o604, 0o620, 0o602):
            file.chmod(mode)
            with pytest.raises(OperatorError, match=f"run: chmod 600 {file}$"):
                SQLite(tmp_path / "a.db")
        file.chmod(0o600)
        another = SQLite(tmp_path / "a.db")
        await another.close()
        await engine.close()

    asyncio.run(story())


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_missing_or_replaced_file_refuses_reads_and_writes(
    tmp_path: Path, end: str, replaced: bool
) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        await engine.read(lambda db: db.rows("SELECT id FROM a"))
        assert engine.check_identity() == ""
        file, aside = tmp_path / f"a.db{end}", tmp_path / "aside"
        file.rename(aside)
        if replaced:
            shutil.copy(aside, file)
        before = sorted(os.listdir(tmp_path))  # noqa: PTH208 - not a method of a path
        assert str(file) in engine.check_identity()
        assert engine.mark() is None
        with pytest.raises(DatabaseUnavailable, match=str(file)):
            await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (1)"))
        with pytest.raises(DatabaseUnavailable, match=str(file)):
            await engine.read(lambda db: db.rows("SELECT id FROM a"))
        with pytest.raises(DatabaseUnavailable, match=str(file)):
            await engine.row("SELECT id FROM a")
        with pytest.raises(DatabaseUnavailable, match=str(file)):
            engine.changed()
        assert sorted(os.listdir(tmp_path)) == before  # noqa: PTH208 - not a method of a path
        aside.rename(file)
        assert engine.check_identity() == ""
        await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (2)"))
        assert await engine.read(lambda db: db.rows("SELECT id FROM a")) == [(2,)]
        await engine.close()

    asyncio.run(story())


def test_log_may_be_deleted_while_the_database_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last connection of another process is closed in that moment, and deletes the log."""

    async def story() -> None:
        last = SQLite(tmp_path / "a.db")
        await last.write(lambda db: db.run(_TABLE))
        log = (tmp_path / "a.db-wal").stat().st_ino
        # Keeps the number of the deleted file from being used again.
        os.link(tmp_path / "a.db-wal", tmp_path / "aside")

        def open_late(path: Path, *, patience: float) -> apsw.Connection:
            last._close()
            assert not (tmp_path / "a.db-wal").exists()
            return open_writer(path, patience=patience)

        with monkeypatch.context() as then:
            then.setattr(sqlite, "open_writer", open_late)
            engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (1)"))
        assert (tmp_path / "a.db-wal").stat().st_ino != log
        assert engine.check_identity() == ""
        assert await engine.read(lambda db: db.rows("SELECT id FROM a")) == [(1,)]
        await engine.close()

    asyncio.run(story())


@pytest.mark.parametrize("opens_first", [False, True])
def test_an_open_database_keeps_its_log(tmp_path: Path, *, opens_first: bool) -> None:
    """Before its first transaction, too: closing another connection does not delete the log.

    A new database gets its log from the first that opens it.
    """

    async def story() -> None:
        engine = SQLite(tmp_path / "a.db") if opens_first else None
        other = SQLite(tmp_path / "a.db")
        await other.write(lambda db: db.run(_TABLE))
        engine = engine or SQLite(tmp_path / "a.db")
        await other.close()
        assert (tmp_path / "a.db-wal").exists()
        await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (1)"))
        assert engine.check_identity() == ""
        await engine.close()

    asyncio.run(story())


def test_writer_that_lost_its_connection_opens_another(tmp_path: Path) -> None:
    """It was the only one, so the log is deleted with it."""

    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        with pytest.raises(DatabaseUnavailable):
            await engine.write(lambda _: engine._writer._raw.close())
        await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (1)"))
        assert engine.check_identity() == ""
        assert await engine.read(lambda db: db.rows("SELECT id FROM a")) == [(1,)]
        await engine.close()

    asyncio.run(story())


def test_missing_file_is_not_created_unless_requested(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        SQLite(tmp_path / "a.db", begins=False)
    assert not list(tmp_path.iterdir())


def test_log_may_be_deleted_while_modes_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process closes its last connection when the file was just seen."""
    log, state = tmp_path / "a.db-wal", Path.stat
    create_file(tmp_path / "a.db")

    def seen_and_deleted(file: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        status = state(file, follow_symlinks=follow_symlinks)
        if file == log:
            file.unlink()
        return status

    def list_files(path: Path) -> None:
        assert [str(file) for file, _ in files_of(path)] == [str(path), str(log)]

    for ask in (require_private, list_files):
        log.touch(0o600)
        with monkeypatch.context() as then:
            then.setattr(Path, "stat", seen_and_deleted)
            ask(tmp_path / "a.db")
        assert not log.exists()


_PACKAGE = "valetkey.resource.storage.schema"


@pytest.mark.parametrize("process", ["begins", "ends"])
def test_restore_is_correct_while_a_process_opens_or_closes_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    """Its log is neither taken for that of the restored database, nor missed."""

    async def made(path: Path, row: int) -> SQLite:
        engine = SQLite(path)
        await migrate(engine, _PACKAGE)
        await engine.write(lambda db: db.run(_TABLE))
        await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (:id)", id=row))
        return engine

    async def story() -> None:
        path, rename = tmp_path / "a.db", Path.rename
        backed_up = await made(tmp_path / "b.db", 1)
        await backed_up.backup(str(tmp_path / "backup.db"))
        await backed_up.close()
        engines = [await made(path, 2)]
        if process == "begins":
            await engines.pop().close()
        loop = asyncio.get_running_loop()

        async def begin_or_end() -> None:
            if process == "ends":
                await engines.pop().close()
            else:
                engines.append(SQLite(path))
                await engines[0].write(lambda db: db.run("INSERT INTO a (id) VALUES (3)"))

        def renamed(file: Path, target: str) -> Path:
            if file == path:
                asyncio.run_coroutine_threadsafe(begin_or_end(), loop).result()
            return rename(file, target)

        with monkeypatch.context() as then:
            then.setattr(Path, "rename", renamed)
            await asyncio.to_thread(
                replace_with_backup, tmp_path / "backup.db", path, package=_PACKAGE, aside=".old"
            )
        assert not (tmp_path / "a.db-wal").exists()
        for engine in engines:
            assert "was replaced" in engine.check_identity()
            with pytest.raises(DatabaseUnavailable):
                await engine.write(lambda db: db.run("INSERT INTO a (id) VALUES (4)"))
            await engine.close()
        for file, rows in (("a.db", [(1,)]), ("a.db.old", [(2,), (3,)][: 1 + len(engines)])):
            restored = SQLite(tmp_path / file)
            assert await restored.read(lambda db: db.rows("SELECT id FROM a ORDER BY id")) == rows
            assert await restored.read(lambda db: db.rows("PRAGMA integrity_check")) == [("ok",)]
            await restored.close()

    asyncio.run(story())


def _of_megabytes(path: Path) -> apsw.Connection:
    create_file(path)
    raw = open_writer(path, patience=CEILING)
    raw.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    raw.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
        " INSERT INTO a (id, text) SELECT i, hex(randomblob(500)) FROM n"
    )
    return raw


def test_concurrent_writes_neither_appear_in_a_copy_nor_restart_it(tmp_path: Path) -> None:
    raw, pauses = _of_megabytes(tmp_path / "a.db"), list[float]()

    def write(seconds: float) -> None:
        pauses.append(seconds)
        assert len(pauses) < 100
        raw.execute("UPDATE a SET text = 'new' WHERE id % 100 = ?", (len(pauses),))
        raw.execute("INSERT INTO a (text) VALUES ('new')")

    copy(tmp_path / "a.db", tmp_path / "copy.db", patience=CEILING, pause=write)
    assert len(pauses) > 2
    made = apsw.Connection(str(tmp_path / "copy.db"))
    assert made.execute("SELECT count(*), sum(text = 'new') FROM a").fetchall() == [(3000, 0)]
    assert made.pragma("integrity_check") == "ok"
    made.close()
    raw.close()
    assert {file.name for file in tmp_path.iterdir()} == {"a.db", "copy.db"}


def test_each_step_is_followed_by_a_pause_until_they_took_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, pauses = _of_megabytes(tmp_path / "a.db"), list[float]()
    raw.close()
    times = count(step=12.0)
    monkeypatch.setattr(sqlite_connection, "monotonic", lambda: next(times))
    copy(tmp_path / "a.db", tmp_path / "copy.db", patience=CEILING, pause=pauses.append)
    assert pauses == [36.0, 24.0, 0.0]


def test_closing_the_database_stops_and_removes_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, closed = threading.Event(), threading.Event()

    def flush(_descriptor: int) -> None:
        begun.set()
        assert closed.wait(CEILING)

    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        copying = asyncio.create_task(engine.backup(str(tmp_path / "copy.db")))
        await asyncio.to_thread(begun.wait, CEILING)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        closed.set()
        with pytest.raises(DatabaseUnavailable, match="was closed"):
            await copying
        await closing
        assert not (tmp_path / "copy.db").exists()

    _of_megabytes(tmp_path / "a.db").close()
    monkeypatch.setattr(os, "fsync", flush)
    asyncio.run(story())


def test_copy_that_cannot_be_flushed_is_reported_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk")

    _of_megabytes(tmp_path / "a.db").close()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk"):
        copy(tmp_path / "a.db", tmp_path / "copy.db", patience=CEILING)
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]
