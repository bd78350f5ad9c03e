"""What was learned from the issuer, and what is swept away."""

import asyncio
from collections.abc import Callable

from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.resource.storage.events import Revocations
from valetkey.resource.storage.objects import (
    PAGE_KEY,
    IdempotencyKey,
    IdempotencyKeys,
    Owner,
    StoredValues,
    Sweep,
)
from valetkey.sdk.upstream.revocations import Kind, Page, Revocation

_SCHEMA = "valetkey.resource.storage.schema"
_ADA = Owner("user:1")


def _ended(id: str, at: int, until: int, kind: Kind = Kind.CLIENT) -> Revocation:
    return Revocation(kind, id, Instant(at), Instant(until))


def test_revocations_are_unique_and_keep_the_later_expiry(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)

        pages = (
            Page("1", (_ended("a", 10, 100), _ended("a", 10, 100, Kind.GRANT))),
            Page("2", (_ended("a", 20, 120),)),
            Page("3", (_ended("a", 15, 110), _ended("b", 1, 50))),
        )
        for page in pages:
            await engine.write(_learning(page))
        stored_page = await engine.read(lambda db: Revocations(db).read(Instant(50)))
        assert stored_page.cursor == "3"
        assert set(stored_page.revocations) == {
            _ended("a", 20, 120),
            _ended("a", 10, 100, Kind.GRANT),
        }

    asyncio.run(story())


def _learning(page: Page) -> Callable[[Connection], None]:
    return lambda db: Revocations(db).save(page)


def test_one_of_many_concurrent_writers_sets_the_page_key(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)

        def putting(value: str) -> Callable[[Connection], bool]:
            return lambda db: StoredValues(db).set_if_absent(PAGE_KEY, value)

        won = await asyncio.gather(*(engine.write(putting(str(n))) for n in range(8)))
        assert sum(won) == 1
        assert await engine.read(lambda db: StoredValues(db).find(PAGE_KEY)) == str(won.index(True))
        assert await engine.read(lambda db: StoredValues(db).find("nothing")) == ""

    asyncio.run(story())


def test_only_expired_rows_are_swept_in_limited_batches(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)

        def fill(db: Connection) -> None:
            keys = IdempotencyKeys(db, "notes", _ADA)
            for n in range(5):
                assert keys.claim(IdempotencyKey("c", str(n), "p"), "id", "{}", Instant(10 + n))
            Revocations(db).save(Page("x", (_ended("a", 1, 11), _ended("b", 1, 99))))

        def look(db: Connection) -> list[bool]:
            keys = IdempotencyKeys(db, "notes", _ADA)
            return [keys.answered(IdempotencyKey("c", str(n), "p")) is not None for n in range(5)]

        await engine.write(fill)
        counts = [
            await engine.write(lambda db: Sweep(db).everything(Instant(12), 2)) for _ in range(3)
        ]
        assert counts == [3, 1, 0]
        assert await engine.read(look) == [False, False, False, True, True]
        left = await engine.read(lambda db: Revocations(db).read(Instant(0)))
        assert left.revocations == (_ended("b", 1, 99),)

    asyncio.run(story())
