"""How values are written so that text compares as they do, and listing on both engines."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.resource.storage import lists
from valetkey.resource.storage.lists import Lists, Orders, bring_up_to_date, written
from valetkey.resource.storage.objects import Objects, Owner, Place, Stored

_ORDERS = Orders(sort=("n",), filter=("t",))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_are_written_in_their_order(one: float, other: float) -> None:
    assert (written(one) < written(other)) is (one < other)
    assert (written(one) == written(other)) is (one == other)


@given(st.text(max_size=25), st.text(max_size=25))
def test_texts_are_written_in_their_order(one: str, other: str) -> None:
    assert (written(one) < written(other)) is (one.encode() < other.encode())


def test_nothing_is_before_everything_and_the_end_behind() -> None:
    places = [lists.FIRST.value, *map(written, (None, False, True)), lists.LAST.value]
    assert all(str(one) < str(other) for one, other in pairwise(places))
    assert written(3) == written(3.0)
    assert written([]) == "0"


def test_too_many_lists_are_counted() -> None:
    assert len(_ORDERS.names) == 3
    assert not Orders()


def test_both_engines_list_in_one_order(engine: Engine) -> None:
    owner = Owner("user:1")

    def fill(db: Connection) -> None:
        for number in (3, -1, 10, 2, -20):
            document = f'{{"n":{number},"t":"a"}}'
            stored = Stored(f"s_{number}", document, 1, Instant(number + 50), Instant(0))
            Objects(db, "s", owner).add(stored)

    def page(db: Connection) -> list[str]:
        own = Lists(db, "s", owner)
        first = own.page("t/n", written("a"), lists.FIRST, 3)
        rest = own.page("t/n", written("a"), first[-1][1], 3)
        back = own.page_back("/n", "", lists.LAST, 2)
        newest = Objects(db, "s", owner).page_back(Place(2**62, ""), 1)
        return [each.id for each, _ in (*first, *rest, *back)] + [each.id for each in newest]

    async def story() -> list[str]:
        await migrate(engine, "valetkey.resource.storage.schema")
        await engine.write(fill)
        await bring_up_to_date(engine, "s", _ORDERS)
        await bring_up_to_date(engine, "s", _ORDERS)
        return await engine.read(page)

    numbers = [-20, -1, 2, 3, 10, 10, 3, 10]
    assert asyncio.run(story()) == [f"s_{number}" for number in numbers]


@pytest.mark.parametrize("count", [499, 500, 501])
def test_what_is_older_than_its_lists_is_entered_in_batches(engine: Engine, count: int) -> None:
    owner = Owner("user:1")

    def fill(db: Connection) -> None:
        for number in range(count):
            stored = Stored(f"s_{number}", '{"t":"a"}', 1, Instant(1), Instant(1))
            Objects(db, "s", owner).add(stored)

    async def story() -> int:
        await migrate(engine, "valetkey.resource.storage.schema")
        await engine.write(fill)
        await bring_up_to_date(engine, "s", Orders(filter=("t",)))
        found = await engine.read(
            lambda db: Lists(db, "s", owner).page("t/created_at", written("a"), lists.FIRST, 1_000)
        )
        return len(found)

    assert asyncio.run(story()) == count
