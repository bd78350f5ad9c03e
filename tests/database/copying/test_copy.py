"""A copy has every row of its source, once, on either engine and in either direction."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from valetkey.database import identity
from valetkey.database.connect import connect
from valetkey.database.copying import DIALECTS, DatabaseCopy, Side, release_source
from valetkey.database.engine import Connection, DatabaseUnavailable
from valetkey.database.identity import Seen
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError

SCHEMA = "valetkey.authorization.storage.schema"
NOW = Instant(1_800_000_000)
THIS = Seen("a" * 32, 3, 40, NOW)
TEXT = "Größe 'quoted' \"double\" : ; \\ \U0001f511 \x01\n\r\t \ufffe end "


@pytest.fixture(params=["sqlite to postgres", "postgres to sqlite"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The URLs of source and target, both empty."""
    file = f"sqlite:///{tmp_path}/one.db"
    server: str = request.getfixturevalue("postgres_url")
    return (file, server) if request.param == "sqlite to postgres" else (server, file)


@pytest.fixture
def sides(urls: tuple[str, str], tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    made = [Side(connect(url, directory=tmp_path), DIALECTS[url.partition(":")[0]]) for url in urls]
    yield made[0], made[1]
    for side in made:
        asyncio.run(side.engine.close())


def fill(db: Connection, rows: int = 2_500) -> None:
    identity.store_identity(db, THIS)
    for number in range(rows):
        db.send("INSERT INTO uids (uid, given_at) VALUES (:uid, :at)", uid=number - 5, at=2**63 - 1)
    for at, text in enumerate(("", TEXT, "x" * 3_000_000, "y" * 1_500_000, "null", "NULL")):
        db.send(
            "INSERT INTO user_groups (id, name, description, parent_id, created_at, deleted_at)"
            " VALUES (:id, :id, :text, '', :at, :gone)",
            id=f"{text[:3]}-{at}",
            text=text,
            at=-(2**63) + at,
            gone=at or None,
        )
    for number in range(3):
        db.send(
            "INSERT INTO users (uid, username, username_key, email, email_key, name, created_at,"
            " changed_at) VALUES (:uid, :name, :name, :name, :name, '', 0, 0)",
            uid=number,
            name=f"user{number}",
        )
        for word in ("b", "B", "ä", "a"):
            db.send(
                "INSERT INTO people_words (word, uid) VALUES (:word, :uid)", word=word, uid=number
            )
    db.send("UPDATE revision SET number = 77")


async def begun(sides: tuple[Side, Side]) -> DatabaseCopy:
    await migrate(sides[0].engine, SCHEMA)
    await sides[0].engine.change_schema(fill)
    return await again(sides)


async def again(sides: tuple[Side, Side], fresh: str = "c" * 32) -> DatabaseCopy:
    copy = DatabaseCopy(*sides, SCHEMA)
    await copy.inspect()
    await copy.begin(fresh, NOW)
    return copy


def run(sql: str, db: Connection) -> int:
    """Execute a statement."""
    return db.run(sql)


def quiet(_: str) -> None:
    """Tell nothing."""


async def complete(copy: DatabaseCopy) -> None:
    await copy.copy(quiet)
    await copy.check(quiet)
    await copy.finish(await copy.retire())


def test_copy_has_every_row_and_the_identity_of_its_source(sides: tuple[Side, Side]) -> None:
    async def story() -> None:
        copy = await begun(sides)
        messages: list[str] = []
        await copy.copy(messages.append)
        assert copy.done == copy.total > 2_500
        assert len(messages) > 20
        checks = {check.table: check for check in await copy.check(quiet)}
        assert checks["uids"].rows == 2_500
        assert checks["people_words"].rows == 12
        assert checks["revision"].rows == 1
        own = {"installation", "migrations", "probe", "copy_progress", "nodes", "backups"}
        assert not own & set(checks)
        await copy.finish(await copy.retire())
        target = sides[1].engine
        await migrate(target, SCHEMA)
        assert await target.read(identity.find) == Seen(THIS.database, 3, 41, NOW)
        rows = await target.scan(
            lambda db: db.rows("SELECT description, created_at, deleted_at FROM user_groups")
        )
        assert {(TEXT, -(2**63) + 1, 1), ("", -(2**63), None)} < {tuple(row) for row in rows}
        # It accepts writes, and its own copy has the same content.
        await target.write(lambda db: db.run("UPDATE revision SET number = 78"))

    asyncio.run(story())


def test_source_refuses_every_write_from_the_beginning_and_is_read(
    sides: tuple[Side, Side],
) -> None:
    async def story() -> None:
        await begun(sides)
        source = sides[0].engine
        for sql in (
            "UPDATE users SET name = 'x'",
            "DELETE FROM people_words",
            "INSERT INTO uids (uid, given_at) VALUES (999999, 0) ON CONFLICT (uid) DO NOTHING",
        ):
            with pytest.raises(DatabaseUnavailable, match="accepts no writes"):
                await source.write(partial(run, sql))
        assert len(await source.scan(lambda db: db.rows("SELECT uid FROM users"))) == 3
        # That the database is there goes on being written.
        _, grew = await source.write(lambda db: identity.advance(db, Instant(NOW + 9)))
        assert grew
        await source.change_schema(lambda db: release_source(db, sides[0].dialect))
        assert await source.write(lambda db: db.run("UPDATE users SET name = 'x'")) == 3

    asyncio.run(story())


def test_unfinished_target_and_retired_source_are_refused_by_servers(
    sides: tuple[Side, Side],
) -> None:
    async def story() -> None:
        copy = await begun(sides)
        with pytest.raises(OperatorError, match="is not finished"):
            await migrate(sides[1].engine, SCHEMA)
        await copy.copy(quiet)
        await copy.check(quiet)
        seen = await copy.retire()
        with pytest.raises(OperatorError, match="is not finished"):
            await migrate(sides[1].engine, SCHEMA)
        with pytest.raises(OperatorError, match="was copied to another one"):
            await migrate(sides[0].engine, SCHEMA)
        with pytest.raises(OperatorError, match="complete"):
            await sides[0].engine.change_schema(lambda db: release_source(db, sides[0].dialect))
        # Another process continues after a crash at the worst moment.
        copy = await again(sides)
        await copy.copy(quiet)
        await copy.check(quiet)
        assert await copy.retire() == seen
        await copy.finish(seen)
        await migrate(sides[1].engine, SCHEMA)
        copy = DatabaseCopy(*sides, SCHEMA)
        await copy.inspect()
        assert copy.complete

    asyncio.run(story())


def test_copy_continues_where_it_was_interrupted(sides: tuple[Side, Side]) -> None:
    class Stopped(Exception):
        pass

    async def story() -> None:
        copy = await begun(sides)
        stopped: list[int] = []
        for part in range(1, 5):

            def stop(_: str, part: int = part, copy: DatabaseCopy = copy) -> None:
                if copy.done >= copy.total * part / 5:
                    raise Stopped

            with pytest.raises(Stopped):
                await copy.copy(stop)
            stopped.append(copy.done)
            copy = await again(sides, fresh="d" * 32)
        assert 0 < stopped[0] < stopped[-1] < copy.total
        await complete(copy)

    asyncio.run(story())


def test_second_process_of_the_same_copy_is_refused(sides: tuple[Side, Side]) -> None:
    async def story() -> None:
        one, other = await begun(sides), await again(sides)
        started = False

        def stop(_: str) -> None:
            nonlocal started
            if one.done and not started:
                started = True
                raise KeyError

        with pytest.raises(KeyError):
            await one.copy(stop)
        # Reads the progress before, writes after the other one did.
        await asyncio.gather(one.copy(quiet), other.copy(quiet), return_exceptions=True)
        last = await again(sides)
        await last.copy(quiet)
        await last.check(quiet)

    asyncio.run(story())


def test_row_that_was_changed_or_lost_on_the_way_is_found(sides: tuple[Side, Side]) -> None:
    async def story(sql: str, wrong: str) -> None:
        copy = await again(sides)
        await copy.copy(quiet)
        await sides[1].engine.change_schema(lambda db: db.run(sql))
        with pytest.raises(OperatorError, match=wrong):
            await copy.check(quiet)
        await sides[0].engine.change_schema(lambda db: release_source(db, sides[0].dialect))

    async def stories() -> None:
        await begun(sides)
        await sides[0].engine.change_schema(lambda db: release_source(db, sides[0].dialect))
        await story("UPDATE users SET name = 'x' WHERE uid = 1", "users .* different content")
        # The second copy began again with an empty target.
        await story("DELETE FROM people_words WHERE uid = 1", "12 rows here and 8 there")
        await complete(await again(sides))

    asyncio.run(stories())


def test_copy_elsewhere_and_to_a_database_in_use_are_refused(
    sides: tuple[Side, Side], tmp_path: Path
) -> None:
    async def story() -> None:
        await begun(sides)
        third = Side(
            connect(f"sqlite:///{tmp_path}/third.db", directory=tmp_path), DIALECTS["sqlite"]
        )
        try:
            with pytest.raises(OperatorError, match="being copied to another one"):
                await DatabaseCopy(sides[0], third, SCHEMA).inspect()
            await migrate(third.engine, SCHEMA)
            with pytest.raises(OperatorError, match="not empty"):
                await DatabaseCopy(sides[0], third, SCHEMA).inspect()
            with pytest.raises(OperatorError, match="not finished"):
                await DatabaseCopy(sides[1], third, SCHEMA).inspect()
            with pytest.raises(OperatorError, match="not empty"):
                await DatabaseCopy(sides[0], sides[0], SCHEMA).inspect()
        finally:
            await third.engine.close()

    asyncio.run(story())


def test_tables_of_litestream_are_left_out(sides: tuple[Side, Side]) -> None:
    async def story() -> None:
        (sqlite,) = (side for side in sides if side.dialect is DIALECTS["sqlite"])

        def keep_track(db: Connection) -> None:
            db.send("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
            db.send("CREATE TABLE _litestream_lock (id INTEGER)")

        await sqlite.engine.change_schema(keep_track)
        copy = await begun(sides)
        await copy.copy(quiet)
        checks = {check.table: check.rows for check in await copy.check(quiet)}
        assert checks["uids"] == 2_500
        assert not [table for table in checks if "litestream" in table]

    asyncio.run(story())
