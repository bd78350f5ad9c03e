"""The home in our own database, under contention, on both engines."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.sdk.issuer import Clock
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine, Row, T
from valetkey.database.migrate import migrate
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.resource.backends.records import LocalRecords, Recent, Representation, Visit
from valetkey.resource.objects import notes
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.requests.patches import MergePatch
from valetkey.resource.requests.representation import NO_PRECONDITIONS, Preconditions
from valetkey.resource.storage.objects import IdempotencyKey, Owner
from valetkey.sdk import Caller

_SCHEMA = "valetkey.resource.storage.schema"
_NOW = Clock().now()
_NOTE = {"title": "Milk", "text": ""}


def _visit(uid: str = "1001") -> Visit:
    caller = Caller(uid, "printer", Scope(), "at_1", "gr_1", _NOW, Instant(_NOW + 60))
    return Visit(caller, Secret(""), Owner(f"user:{uid}"), _NOW)


def _records(engine: Engine) -> LocalRecords:
    return LocalRecords(engine, notes.OBJECT, SYSTEM.random)


async def _told(work: Awaitable[Representation]) -> ErrorCode | str:
    try:
        return (await work).etag
    except Refused as refused:
        return refused.refusal.code


def test_one_of_64_writes_with_the_same_etag_succeeds(database_url: str, tmp_path: Path) -> None:
    async def contend() -> None:
        engines = [connect(database_url, directory=tmp_path) for _ in range(2)]
        await migrate(engines[0], _SCHEMA)
        try:
            both = [_records(engine) for engine in engines]
            made = await both[0].create(_visit(), _NOTE, None)
            demand = Preconditions(match=(made.etag,))
            results = await asyncio.gather(
                *(
                    _told(
                        both[n % 2].change(_visit(), made.id, MergePatch({"title": str(n)}), demand)
                    )
                    for n in range(64)
                )
            )
            assert Counter(results) == {'"2"': 1, ErrorCode.PRECONDITION_FAILED: 63}
        finally:
            for engine in engines:
                await engine.close()

    asyncio.run(contend())


def test_64_posts_with_one_idempotency_key_create_one(database_url: str, tmp_path: Path) -> None:
    async def contend() -> None:
        engines = [connect(database_url, directory=tmp_path) for _ in range(2)]
        await migrate(engines[0], _SCHEMA)
        try:
            both = [_records(engine) for engine in engines]
            key = IdempotencyKey("printer", "k", "print")
            made = await asyncio.gather(
                *(both[n % 2].create(_visit(), _NOTE, key) for n in range(64))
            )
            assert len({record.body for record in made}) == 1
            listed = await both[0].page(_visit(), PageRequest())
            assert [record.id for record in listed.records] == [made[0].id]
        finally:
            for engine in engines:
                await engine.close()

    asyncio.run(contend())


def test_changes_without_a_tag_are_all_kept(engine: Engine) -> None:
    async def contend() -> None:
        await migrate(engine, _SCHEMA)
        records = _records(engine)
        made = await records.create(_visit(), _NOTE, None)
        await asyncio.gather(
            records.change(_visit(), made.id, MergePatch({"title": "Bread"}), NO_PRECONDITIONS),
            records.change(_visit(), made.id, MergePatch({"text": "two"}), NO_PRECONDITIONS),
        )
        now = msgspec.json.decode((await records.find(_visit(), made.id)).body)
        assert (now["title"], now["text"], now["version"]) == ("Bread", "two", 3)

    asyncio.run(contend())


def test_one_of_many_concurrent_deletes_succeeds(engine: Engine) -> None:
    async def contend() -> None:
        await migrate(engine, _SCHEMA)
        records = _records(engine)
        made = await records.create(_visit(), _NOTE, None)

        async def delete() -> str:
            try:
                await records.delete(_visit(), made.id, NO_PRECONDITIONS)
            except Refused as refused:
                return refused.refusal.code
            return "deleted"

        results = await asyncio.gather(*(delete() for _ in range(16)))
        assert Counter(results) == {"deleted": 1, ErrorCode.NOT_FOUND: 15}

    asyncio.run(contend())


def test_records_of_other_users_are_not_visible(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        records = _records(engine)
        made = await records.create(_visit(), _NOTE, None)
        other = _visit("1002")
        assert await _told(records.find(other, made.id)) == ErrorCode.NOT_FOUND
        change = records.change(other, made.id, MergePatch({"title": "x"}), NO_PRECONDITIONS)
        assert await _told(change) == ErrorCode.NOT_FOUND
        assert (await records.page(other, PageRequest())).records == ()

    asyncio.run(story())


class _Contended:
    """A database in which somebody else is always faster."""

    def __init__(self, kept: Sequence[Row]) -> None:
        self._kept = kept

    def row(self, sql: str, /, **params: object) -> Row | None:
        return self._kept[0] if self._kept and "objects" in sql else None

    def rows(self, sql: str, /, **params: object) -> Sequence[Row]:
        return self._kept

    def ahead(self, sql: str, /, **params: object) -> Callable[[], Sequence[Row]]:
        return lambda: self._kept

    def once(self, sql: str, /) -> Row | None:
        return self.row(sql)

    def assume(self, sql: str, number: int, /) -> bool:
        return False

    def claim(self, sql: str, /, **params: object) -> bool:
        return False

    def at_commit(self, sql: str, /) -> None:
        pass

    def share(self, sql: str, /, **params: object) -> None:
        pass

    def exclude(self, sql: str, /, **params: object) -> None:
        pass

    def run(self, sql: str, /, **params: object) -> int:
        return 0

    def send(self, sql: str, /, **params: object) -> None:
        raise AssertionError("nothing may be written")

    async def write(self, work: Callable[[Connection], T]) -> T:
        return work(self)


def test_write_that_always_conflicts_is_refused_as_temporarily_unavailable() -> None:
    async def story() -> None:
        row = ("note_1", '{"title":"x","text":""}', 1, _NOW, _NOW)
        records = _records(cast("Engine", _Contended([row])))
        for work in (
            records.change(_visit(), "note_1", MergePatch({"title": "y"}), NO_PRECONDITIONS),
            records.delete(_visit(), "note_1", NO_PRECONDITIONS),
            records.create(_visit(), _NOTE, IdempotencyKey("printer", "k", "p")),
        ):
            with pytest.raises(Refused, match="temporarily_unavailable"):
                await work

    asyncio.run(story())


def test_changes_by_another_server_are_read_at_once(database_url: str, tmp_path: Path) -> None:
    async def story() -> None:
        engines = [connect(database_url, directory=tmp_path) for _ in range(2)]
        await migrate(engines[0], _SCHEMA)
        try:
            here, there = (_records(engine) for engine in engines)
            made = await here.create(_visit(), _NOTE, None)
            for number in range(20):
                for _ in range(2):
                    shown = await here.find(_visit(), made.id)
                    assert shown.etag == f'"{number + 1}"'
                patch = MergePatch({"title": f"{number}"})
                await there.change(_visit(), made.id, patch, NO_PRECONDITIONS)
            with pytest.raises(Refused):
                await here.find(_visit("1002"), made.id)
            await there.delete(_visit(), made.id, NO_PRECONDITIONS)
            with pytest.raises(Refused):
                await here.find(_visit(), made.id)
        finally:
            for engine in engines:
                await engine.close()

    asyncio.run(story())


def test_record_cache_is_bounded_by_number_and_size() -> None:
    recent, owner = Recent(), Owner("user:1")
    for number in range(1_200):
        recent.add(b"now", owner, Representation(f"{number}", b"{}", '"1"'))
    assert recent.find(b"now", owner, "0") is None
    assert recent.find(b"now", owner, "1199") is not None
    assert recent.find(b"now", Owner("user:2"), "1199") is None
    assert recent.find(b"later", owner, "1199") is None
    assert recent.find(None, owner, "1199") is None
    recent.add(b"now", owner, Representation("large", b"x" * 10_000, '"1"'))
    assert recent.find(b"now", owner, "large") is None


def test_record_contains_the_written_fields_and_those_of_the_server(
    database_url: str, tmp_path: Path
) -> None:
    async def story() -> None:
        engine = connect(database_url, directory=tmp_path)
        await migrate(engine, _SCHEMA)
        try:
            records = _records(engine)
            for fields in ({}, {"title": 'a "b" \\ c, }', "text": "é 漢 \n"}):
                made = await records.create(_visit(), fields, None)
                ours = {"created_at": _NOW, "changed_at": _NOW, "version": 1}
                expected = {"id": made.id, **fields, **ours}
                assert msgspec.json.decode(made.body) == expected
                record = await records.find(_visit(), made.id)
                assert record.body == made.body
        finally:
            await engine.close()

    asyncio.run(story())


def test_cache_hits_and_misses_of_records_are_counted(database_url: str, tmp_path: Path) -> None:
    def counted() -> dict[tuple[str, ...], float]:
        samples = {labels: value for labels, (value,) in metrics.CACHE.samples()}
        return {labels: value for labels, value in samples.items() if labels[0] == "records"}

    async def read() -> None:
        engine = connect(database_url, directory=tmp_path)
        await migrate(engine, _SCHEMA)
        try:
            records = _records(engine)
            made = await records.create(_visit(), _NOTE, None)
            await records.find(_visit(), made.id)
            assert (await records.create(_visit(), _NOTE, None)).id != made.id
            before = counted()
            for _ in range(3):
                await records.find(_visit(), made.id)
            grown = {labels: n - before.get(labels, 0) for labels, n in counted().items()}
            # PostgreSQL keeps none: it does not tell at once whether anything changed.
            kept = {("records", "miss"): 1, ("records", "hit"): 2}
            assert {k: n for k, n in grown.items() if n} == (kept if engine.mark() else {})
        finally:
            await engine.close()

    asyncio.run(read())
