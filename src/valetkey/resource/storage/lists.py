"""Lists: the position of each object in each of its kind's orders; decision 0007."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from valetkey.database.engine import Connection, Engine
from valetkey.database.record import Column, Record
from valetkey.resource.storage.objects import STORED, ListPosition, Owner, Stored
from valetkey.resource.storage.values import StoredValues

CREATED = "created_at"
CHANGED = "changed_at"

COMPARED = 100
"""Bytes of a text that take part in the order; beyond, ids decide."""

FIRST = ListPosition("", "")
LAST = ListPosition("2", "")
"""Sorts after everything, as FIRST sorts before: text from `written` begins with 0 or 1."""

_BATCH = 500
_SIGN = 1 << 63
_ALL = (1 << 64) - 1


class Entry(Struct, frozen=True):
    """The position of one object in one list."""

    list: str
    value: str
    place: str


class Orders(Struct, frozen=True):
    """The lists of one kind: creation order needs no entries, all others do."""

    sort: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sort or self.filter)

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Return each list as its filter field ("" for none) and its sort field."""
        return tuple(
            (filtered, by)
            for filtered in ("", *self.filter)
            for by in (CREATED, *self.sort)
            if filtered or by != CREATED
        )

    def entries(self, stored: Stored) -> frozenset[Entry]:
        """Return the position of this object in each list."""
        if not self:
            return frozenset()
        return frozenset(self._entries(stored))

    def _entries(self, stored: Stored) -> Iterator[Entry]:
        fields: Mapping[str, object] = {
            **msgspec.json.decode(stored.document, type=dict[str, object]),
            CREATED: stored.created_at,
            CHANGED: stored.changed_at,
        }
        for filtered, by in self.names:
            value = written(fields.get(filtered)) if filtered else ""
            yield Entry(list_name(filtered, by), value, written(fields.get(by)))


def list_name(filtered: str, by: str) -> str:
    """Return a list's name in the table."""
    return f"{filtered}/{by}"


def written(value: object) -> str:
    """Encode a scalar as 0-9 and a-f so that texts sort like values in every collation.

    Null sorts before everything; numbers compare as doubles, text by its first 100 bytes.
    """
    if isinstance(value, bool):
        return f"1{value:d}"
    if isinstance(value, int | float):
        (bits,) = struct.unpack(">Q", struct.pack(">d", value or 0.0))
        # For two negative doubles, the one with the larger bits is smaller.
        return f"1{(bits ^ _ALL if bits & _SIGN else bits | _SIGN):016x}"
    if isinstance(value, str):
        return "1" + value.encode()[:COMPARED].hex()
    return "0"


class Lists(Struct, frozen=True):
    """The lists of one kind and one owner."""

    db: Connection
    kind: str
    owner: Owner

    def insert(self, id: str, entries: frozenset[Entry]) -> None:
        """Enter an object."""
        for entry in sorted(entries, key=lambda each: each.list):
            self.db.send(
                "INSERT INTO list_entries (owner, kind, list, value, place, id)"
                " VALUES (:owner, :kind, :list, :value, :place, :id)"
                " ON CONFLICT (owner, kind, list, value, place, id) DO NOTHING",
                owner=self.owner,
                kind=self.kind,
                list=entry.list,
                value=entry.value,
                place=entry.place,
                id=id,
            )

    def drop(self, id: str) -> None:
        """Remove an object from every list."""
        self.db.send("DELETE FROM list_entries WHERE id = :id", id=id)

    def page(
        self, list: str, value: str, after: ListPosition, limit: int
    ) -> Sequence[tuple[Stored, ListPosition]]:
        """Return at most `limit` objects after a position, each with its own position."""
        return _PLACED.all(
            self.db,
            "SELECT * FROM list_entries AS e JOIN objects ON objects.id = e.id WHERE e.owner ="
            " :owner AND e.kind = :kind AND e.list = :list AND e.value = :value AND (e.place, e.id)"
            " > (:place, :id) ORDER BY e.place, e.id LIMIT :limit",
            owner=self.owner,
            kind=self.kind,
            list=list,
            value=value,
            place=after.value,
            id=after.id,
            limit=limit,
        )

    def page_back(
        self, list: str, value: str, before: ListPosition, limit: int
    ) -> Sequence[tuple[Stored, ListPosition]]:
        """Return at most `limit` entries before a position, in descending order."""
        return _PLACED.all(
            self.db,
            "SELECT * FROM list_entries AS e JOIN objects ON objects.id = e.id WHERE e.owner ="
            " :owner AND e.kind = :kind AND e.list = :list AND e.value = :value AND (e.place, e.id)"
            " < (:place, :id) ORDER BY e.place DESC, e.id DESC LIMIT :limit",
            owner=self.owner,
            kind=self.kind,
            list=list,
            value=value,
            place=before.value,
            id=before.id,
            limit=limit,
        )


class Intersection(Struct, frozen=True):
    """The objects in both of two lists of equal order, as for a query with two filters."""

    db: Connection
    kind: str
    owner: Owner
    lists: tuple[str, str]
    values: tuple[str, str]
    """The value to look up in each list."""

    def page(
        self, after: ListPosition, window: int, limit: int
    ) -> Sequence[tuple[Stored, ListPosition]]:
        """Return at most `limit` objects among the `window` next entries of the first list."""
        return _PLACED.all(
            self.db,
            "SELECT * FROM (SELECT place, id FROM list_entries WHERE owner = :owner"
            " AND kind = :kind AND list = :list AND value = :value AND (place, id) > (:place, :id)"
            " ORDER BY place, id LIMIT :window) AS e JOIN objects ON objects.id = e.id"
            " WHERE EXISTS (SELECT 1 FROM list_entries AS other WHERE other.owner = :owner"
            " AND other.kind = :kind AND other.list = :other AND other.value = :its"
            " AND other.place = e.place AND other.id = e.id) ORDER BY e.place, e.id LIMIT :limit",
            **self._where(after),
            window=window,
            limit=limit,
            other=self.lists[1],
            its=self.values[1],
        )

    def end(self, after: ListPosition, window: int) -> ListPosition | None:
        """Return the end of that window; None if the first list ends before it."""
        row = self.db.row(
            "SELECT place, id FROM list_entries"
            " WHERE owner = :owner AND kind = :kind AND list = :list AND value = :value"
            " AND (place, id) > (:place, :id) ORDER BY place, id LIMIT 1 OFFSET :skipped",
            **self._where(after),
            skipped=window - 1,
        )
        return None if row is None else ListPosition(*row)

    def page_back(
        self, before: ListPosition, window: int, limit: int
    ) -> Sequence[tuple[Stored, ListPosition]]:
        """Return a page as `page` does, in the other direction."""
        return _PLACED.all(
            self.db,
            "SELECT * FROM (SELECT place, id FROM list_entries WHERE owner = :owner"
            " AND kind = :kind AND list = :list AND value = :value AND (place, id) < (:place, :id)"
            " ORDER BY place DESC, id DESC LIMIT :window) AS e JOIN objects ON objects.id = e.id"
            " WHERE EXISTS (SELECT 1 FROM list_entries AS other WHERE other.owner = :owner"
            " AND other.kind = :kind AND other.list = :other AND other.value = :its"
            " AND other.place = e.place AND other.id = e.id) ORDER BY e.place DESC, e.id DESC"
            " LIMIT :limit",
            **self._where(before),
            window=window,
            limit=limit,
            other=self.lists[1],
            its=self.values[1],
        )

    def end_back(self, before: ListPosition, window: int) -> ListPosition | None:
        """Return the end of the window as `end` does, in the other direction."""
        row = self.db.row(
            "SELECT place, id FROM list_entries"
            " WHERE owner = :owner AND kind = :kind AND list = :list AND value = :value"
            " AND (place, id) < (:place, :id) ORDER BY place DESC, id DESC"
            " LIMIT 1 OFFSET :skipped",
            **self._where(before),
            skipped=window - 1,
        )
        return None if row is None else ListPosition(*row)

    def _where(self, place: ListPosition) -> dict[str, object]:
        return {
            "owner": self.owner,
            "kind": self.kind,
            "list": self.lists[0],
            "value": self.values[0],
            "place": place.value,
            "id": place.id,
        }


async def bring_up_to_date(engine: Engine, kind: str, orders: Orders) -> None:
    """Rebuild the entries of a kind whose lists were declared differently before."""
    declared = " ".join(list_name(*names) for names in orders.names)
    name = f"lists:{kind}"
    if await engine.read(lambda db: StoredValues(db).find(name)) == declared:
        return
    after: str | None = ""
    while after is not None:
        after = await engine.write(_entering(kind, orders, after))
    await engine.write(lambda db: StoredValues(db).set(name, declared))


def _entering(kind: str, orders: Orders, after: str) -> Callable[[Connection], str | None]:
    """Enter a batch of objects after the id `after`; return the last id, None at the end."""

    def enter_batch(db: Connection) -> str | None:
        found = _OWNED.all(
            db,
            "SELECT * FROM objects WHERE kind = :kind AND id > :id ORDER BY id LIMIT :limit",
            kind=kind,
            id=after,
            limit=_BATCH,
        )
        for stored, owner in found:
            lists = Lists(db, kind, owner)
            lists.drop(stored.id)
            lists.insert(stored.id, orders.entries(stored))
        return found[-1][0].id if len(found) == _BATCH else None

    return enter_batch


def _placed(stored: Stored, place: str) -> tuple[Stored, ListPosition]:
    return stored, ListPosition(place, stored.id)


def _owned(stored: Stored, owner: Owner) -> tuple[Stored, Owner]:
    return stored, owner


_PLACED = Record(_placed, stored=STORED, place=Column(sql="e.place"))
_OWNED = Record(_owned, "objects", stored=STORED)
