"""Every change of an object is in the audit log exactly once, and nothing else is."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from tests.sdk.issuer import Clock
from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine, T
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.resource.backends.records import LocalRecords, Representation, Visit
from valetkey.resource.objects import notes
from valetkey.resource.requests.patches import MergePatch
from valetkey.resource.requests.representation import NO_PRECONDITIONS, Preconditions
from valetkey.resource.storage.events import FIRST, EventRecord, Events
from valetkey.resource.storage.objects import IdempotencyKey, Owner
from valetkey.sdk import Caller

_SCHEMA = "valetkey.resource.storage.schema"
_NOW = Clock().now()
_NOTE = {"title": "Milk", "text": "a secret of mine"}
_WRITERS = 64


def _visit(uid: str = "1001") -> Visit:
    caller = Caller(uid, "printer", Scope(), "at_1", "gr_1", _NOW, Instant(_NOW + 60))
    return Visit(caller, Secret(""), Owner(f"user:{uid}"), _NOW)


def _records(engine: Engine) -> LocalRecords:
    return LocalRecords(engine, notes.OBJECT, SYSTEM.random)


async def _log(engine: Engine) -> list[EventRecord]:
    return list(await engine.read(lambda db: Events(db).page(FIRST, 1_000)))


async def _won(work: Awaitable[Representation]) -> bool:
    try:
        await work
    except Refused:
        return False
    return True


def test_change_is_logged_with_its_actor_but_without_its_content(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        records, me = _records(engine), _visit()
        made = await records.create(me, _NOTE, None)
        await records.change(me, made.id, MergePatch({"title": "Bread"}), NO_PRECONDITIONS)
        await records.replace(me, made.id, _NOTE, NO_PRECONDITIONS)
        await records.delete(me, made.id, NO_PRECONDITIONS)
        log = await _log(engine)
        assert [(event.name, event.version) for event in log] == [
            ("object.created", 1),
            ("object.changed", 2),
            ("object.replaced", 3),
            ("object.deleted", 4),
        ]
        assert {event.object_id for event in log} == {made.id}
        who = (log[0].object, log[0].uid, log[0].client_id, log[0].token_id, log[0].grant_id)
        assert who == ("notes", "1001", "printer", "at_1", "gr_1")
        assert log[0].at == _NOW
        assert "secret of mine" not in repr(log)

    asyncio.run(story())


def test_only_the_successful_one_of_64_concurrent_writes_is_in_the_log(
    database_url: str, tmp_path: Path
) -> None:
    async def contend() -> None:
        engines = [connect(database_url, directory=tmp_path) for _ in range(2)]
        await migrate(engines[0], _SCHEMA)
        try:
            both = [_records(engine) for engine in engines]
            made = await both[0].create(_visit(), _NOTE, None)
            for version in range(1, 4):
                demand = Preconditions(match=(f'"{version}"',))
                won = await asyncio.gather(
                    *(
                        _won(
                            both[n % 2].change(
                                _visit(), made.id, MergePatch({"title": f"{version} {n}"}), demand
                            )
                        )
                        for n in range(_WRITERS)
                    )
                )
                assert sum(won) == 1
            log = await _log(engines[1])
            assert [(event.name, event.version) for event in log] == [
                ("object.created", 1),
                *(("object.changed", version) for version in (2, 3, 4)),
            ]
        finally:
            for engine in engines:
                await engine.close()

    asyncio.run(contend())


def test_changes_without_a_tag_are_each_in_the_log(engine: Engine) -> None:
    async def contend() -> None:
        await migrate(engine, _SCHEMA)
        records = _records(engine)
        made = await records.create(_visit(), _NOTE, None)
        won = await asyncio.gather(
            *(
                _won(
                    records.change(
                        _visit(), made.id, MergePatch({"title": str(n)}), NO_PRECONDITIONS
                    )
                )
                for n in range(_WRITERS)
            )
        )
        log = await _log(engine)
        assert [event.version for event in log] == list(range(1, 2 + sum(won)))

    asyncio.run(contend())


def test_64_concurrent_posts_with_one_idempotency_key_log_one_event(engine: Engine) -> None:
    async def contend() -> None:
        await migrate(engine, _SCHEMA)
        records, key = _records(engine), IdempotencyKey("printer", "k", "print")
        await asyncio.gather(*(records.create(_visit(), _NOTE, key) for _ in range(_WRITERS)))
        assert Counter(event.name for event in await _log(engine)) == {"object.created": 1}

    asyncio.run(contend())


def test_refused_or_empty_changes_are_not_logged(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        records, me, other = _records(engine), _visit(), _visit("1002")
        made = await records.create(me, _NOTE, None)
        old, patch = Preconditions(match=('"7"',)), MergePatch({"title": "x"})
        for work in (
            records.change(me, made.id, patch, old),
            records.replace(me, made.id, {"title": "x", "text": ""}, old),
            records.change(other, made.id, patch, NO_PRECONDITIONS),
        ):
            assert not await _won(work)
        for visit, demand in ((me, old), (other, NO_PRECONDITIONS)):
            with pytest.raises(Refused):
                await records.delete(visit, made.id, demand)
        await records.replace(me, made.id, _NOTE, NO_PRECONDITIONS)
        assert [event.name for event in await _log(engine)] == ["object.created"]

    asyncio.run(story())


class _Failing:
    """A database that fails after the work is done and before it is durable."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def write(self, work: Callable[[Connection], T]) -> T:
        def spoiled(db: Connection) -> T:
            work(db)
            raise ConnectionAbortedError

        return await self.engine.write(spoiled)


def test_a_change_that_did_not_become_durable_is_not_in_the_log(engine: Engine) -> None:
    async def story() -> None:
        await migrate(engine, _SCHEMA)
        failing = _records(cast("Engine", _Failing(engine)))
        made = await _records(engine).create(_visit(), _NOTE, None)
        for work in (
            failing.create(_visit(), _NOTE, None),
            failing.change(_visit(), made.id, MergePatch({"title": "x"}), NO_PRECONDITIONS),
            failing.delete(_visit(), made.id, NO_PRECONDITIONS),
        ):
            with pytest.raises(ConnectionAbortedError):
                await work
        assert [event.name for event in await _log(engine)] == ["object.created"]

    asyncio.run(story())
