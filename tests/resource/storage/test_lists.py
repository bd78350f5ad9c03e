"""How values are written so that text compares as they do, and listing on both engines."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.database.engine import Connection, Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.shapes import JsonSchema
from valetkey.resource.backends import records
from valetkey.resource.backends.records import read_page
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.resource_object import ResourceObject
from valetkey.resource.storage import objects
from valetkey.resource.storage.objects import (
    COMPARED,
    CREATED,
    ListPosition,
    Lists,
    Objects,
    Orders,
    Owner,
    Stored,
    bring_up_to_date,
    written,
)

_ORDERS = Orders(sort=("n",), filter=("t",))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_index_keys_of_numbers_keep_their_order(one: float, other: float) -> None:
    assert (written(one) < written(other)) is (one < other)
    assert (written(one) == written(other)) is (one == other)


@given(st.text(max_size=25), st.text(max_size=25))
def test_index_keys_of_texts_keep_their_order(one: str, other: str) -> None:
    assert (written(one) < written(other)) is (one.encode() < other.encode())


def test_index_keys_of_null_and_booleans_are_between_the_bounds() -> None:
    places = [objects.BEFORE_ALL.value, *map(written, (None, False, True)), objects.AFTER_ALL.value]
    assert all(str(one) < str(other) for one, other in pairwise(places))
    assert written(3) == written(3.0)
    assert written([]) == "0"


def test_each_filter_and_sort_combination_is_one_list() -> None:
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
        first = own.page("t/n", written("a"), objects.BEFORE_ALL, 3)
        rest = own.page("t/n", written("a"), first[-1][1], 3)
        back = own.page_back("/n", "", objects.AFTER_ALL, 2)
        newest = Objects(db, "s", owner).page_back(ListPosition(2**62, ""), 1)
        return [stored.id for stored, _ in (*first, *rest, *back)] + [
            stored.id for stored in newest
        ]

    async def story() -> list[str]:
        await migrate(engine, "valetkey.resource.storage.schema")
        await engine.write(fill)
        await bring_up_to_date(engine, "s", _ORDERS)
        await bring_up_to_date(engine, "s", _ORDERS)
        return await engine.read(page)

    numbers = [-20, -1, 2, 3, 10, 10, 3, 10]
    assert asyncio.run(story()) == [f"s_{number}" for number in numbers]


@pytest.mark.parametrize("count", [499, 500, 501])
def test_existing_objects_are_added_to_new_lists_in_batches(engine: Engine, count: int) -> None:
    owner = Owner("user:1")

    def fill(db: Connection) -> None:
        for number in range(count):
            stored = Stored(f"s_{number}", '{"t":"a"}', 1, Instant(1), Instant(1))
            Objects(db, "s", owner).add(stored)

    async def story() -> int:
        await migrate(engine, "valetkey.resource.storage.schema")
        await engine.write(fill)
        await bring_up_to_date(engine, "s", Orders(filter=("t",)))
        page = await engine.read(
            lambda db: Lists(db, "s", owner).page(
                "t/created_at", written("a"), objects.BEFORE_ALL, 1_000
            )
        )
        return len(page)

    assert asyncio.run(story()) == count


def _page(
    kind: ResourceObject, owner: Owner, request: PageRequest, db: Connection
) -> tuple[Sequence[Stored], ListPosition | None]:
    return read_page(db, kind, owner, request)


def test_pages_of_two_filters_list_exactly_the_matching_objects(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With windows so small that some have nothing that fits, in both directions."""
    monkeypatch.setattr(records, "EXAMINED", 7)
    owner, long = Owner("user:1"), "x" * COMPARED
    shape = {name: {"type": kind} for name, kind in (("a", "integer"), ("b", "string"))}
    declared = {"type": "object", "properties": {**shape, "n": {"type": "integer"}}}
    kind = ResourceObject("s", JsonSchema(declared), sort=("n",), filter=("a", "b"))
    made = [
        {"a": n % 3, "b": f"{long}{n % 5 % 2}" if n > 20 else "", "n": n * 7 % 11}
        for n in range(70)
    ]

    def fill(db: Connection) -> None:
        for number, fields in enumerate(made):
            document = msgspec.json.encode(fields).decode()
            stored = Stored(f"s_{number:02d}", document, 1, Instant(number), Instant(0))
            Objects(db, "s", owner).add(stored)
            Lists(db, "s", owner).insert(stored.id, kind.orders.entries(stored))

    async def walk(request: PageRequest) -> list[str]:
        ids: list[str] = []
        while True:
            shown, after = await engine.read(partial(_page, kind, owner, request))
            assert len(shown) <= request.limit
            ids += [stored.id for stored in shown]
            if after is None:
                return ids
            request = replace(request, after=after)

    async def story() -> None:
        await migrate(engine, "valetkey.resource.storage.schema")
        await engine.write(fill)
        for a, b, by, descending in product((0, 1), ("", f"{long}1"), ("n", CREATED), (0, 1)):
            request = PageRequest(None, 3, by, bool(descending), (("a", a), ("b", b)))
            fit = [n for n, fields in enumerate(made) if (fields["a"], fields["b"]) == (a, b)]
            order = sorted(((made[n]["n"] if by == "n" else n), f"s_{n:02d}") for n in fit)
            expected = [object_id for _, object_id in order]
            assert await walk(request) == (expected[::-1] if descending else expected)

    asyncio.run(story())
