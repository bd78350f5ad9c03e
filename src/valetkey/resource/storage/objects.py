"""Objects: the users' data, their positions in lists (decision 0007), single values."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NewType

import msgspec
from msgspec import Struct

from valetkey.database.decisions import Decisions
from valetkey.database.engine import Connection, Engine
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant, hours

KEY_SET = "key_set"
PAGE_KEY = "page_key"


class StoredValues(Struct, frozen=True):
    """Single values by name."""

    db: Connection

    def find(self, name: str) -> str:
        """Return the value; "" if there is none."""
        row = self.db.row("SELECT value FROM kept WHERE name = :name", name=name)
        return "" if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        """Set the value."""
        self.db.send(
            "INSERT INTO kept (name, value) VALUES (:name, :value)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name=name,
            value=value,
        )

    def set_if_absent(self, name: str, value: str) -> bool:
        """Write `value` unless there is one; of concurrent callers exactly one gets True."""
        written = self.db.run(
            "INSERT INTO kept (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
            name=name,
            value=value,
        )
        return written == 1


class Sweep(Struct, frozen=True):
    """Delete expired rows, in batches small enough not to delay other writers."""

    db: Connection

    def idempotency_keys(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` expired responses to idempotency keys."""
        return self.db.run(
            "DELETE FROM idempotency_keys WHERE (owner, client_id, kind, name) IN"
            " (SELECT owner, client_id, kind, name FROM idempotency_keys"
            " WHERE expires_at <= :now LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def revocations(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` revocations whose last token expired."""
        return self.db.run(
            "DELETE FROM revocations WHERE (kind, id) IN"
            " (SELECT kind, id FROM revocations WHERE expires_at <= :now LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def decisions(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` decision records that are a week old."""
        return Decisions(self.db).sweep(now, limit)

    def everything(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` rows of each table; return how many were deleted."""
        counts: Sequence[int] = (
            self.idempotency_keys(now, limit),
            self.revocations(now, limit),
            self.decisions(now, limit),
        )
        return sum(counts)


Owner = NewType("Owner", str)
"""The owner of the data: `user:<uid>` or `client:<client_id>`."""


class Stored(Struct, frozen=True):
    """One object as stored in its row; `document` is JSON. The version starts at 1."""

    id: str
    document: str
    version: int
    created_at: Instant
    changed_at: Instant


class ListPosition(Struct, frozen=True):
    """A position in a list: after the object with this id, whose sort field has this value."""

    value: int | str
    id: str


FIRST_CREATED = ListPosition(-1, "")
LAST_CREATED = ListPosition(2**62, "")
"""Sorts after all objects in creation order, as FIRST_CREATED sorts before them."""


STORED = Record(Stored, "objects")

_ONE = "SELECT * FROM objects WHERE id = :id AND kind = :kind AND owner = :owner"
ONE = STORED.statement(_ONE)
"""SQL for one object of one owner, a row of `STORED`."""


class Objects(Struct, frozen=True):
    """The objects of one kind and one owner; other owners' objects are not visible."""

    db: Connection
    kind: str
    owner: Owner

    def find(self, id: str) -> Stored | None:
        """Return the object; None if it does not exist or belongs to another owner."""
        return STORED.find(self.db, _ONE, id=id, kind=self.kind, owner=self.owner)

    def page(self, after: ListPosition, limit: int) -> Sequence[Stored]:
        """Return at most `limit` objects in creation order after a position."""
        return STORED.all(
            self.db,
            "SELECT * FROM objects WHERE owner = :owner AND kind = :kind AND (created_at, id) >"
            " (:at, :id) ORDER BY created_at, id LIMIT :limit",
            owner=self.owner,
            kind=self.kind,
            at=after.value,
            id=after.id,
            limit=limit,
        )

    def page_back(self, before: ListPosition, limit: int) -> Sequence[Stored]:
        """Return at most `limit` objects created before a position, the newest first."""
        return STORED.all(
            self.db,
            "SELECT * FROM objects WHERE owner = :owner AND kind = :kind AND (created_at, id) <"
            " (:at, :id) ORDER BY created_at DESC, id DESC LIMIT :limit",
            owner=self.owner,
            kind=self.kind,
            at=before.value,
            id=before.id,
            limit=limit,
        )

    def add(self, new: Stored) -> None:
        """Insert a new object."""
        STORED.send(
            self.db,
            "INSERT INTO objects (*, kind, owner) VALUES (*, :kind, :owner)",
            new,
            kind=self.kind,
            owner=self.owner,
        )

    def change(self, before: Stored, document: str, now: Instant) -> Stored | None:
        """Write `document` if the row is still `before`; return None if it has changed."""
        changed = self.db.run(
            "UPDATE objects SET document = :document, version = version + 1, changed_at = :now"
            " WHERE id = :id AND kind = :kind AND owner = :owner AND version = :version",
            document=document,
            now=now,
            id=before.id,
            kind=self.kind,
            owner=self.owner,
            version=before.version,
        )
        if not changed:
            return None
        return Stored(before.id, document, before.version + 1, before.created_at, now)

    def remove(self, before: Stored) -> bool:
        """Delete the object if the row is still `before`; return False if it has changed."""
        removed = self.db.run(
            "DELETE FROM objects"
            " WHERE id = :id AND kind = :kind AND owner = :owner AND version = :version",
            id=before.id,
            kind=self.kind,
            owner=self.owner,
            version=before.version,
        )
        return removed == 1


REMEMBERED = hours(24)
"""How long a response is kept."""


class IdempotencyKey(Struct, frozen=True):
    """A client's name for one request: its key, and a hash of the request."""

    client_id: str
    name: str
    request: str


class StoredResponse(Struct, frozen=True):
    """The response to the first request with a key: `request` is its hash, `answer` JSON."""

    request: str
    object_id: str
    answer: str


class IdempotencyKeys(Struct, frozen=True):
    """The keys of one owner for one kind of object."""

    db: Connection
    kind: str
    owner: Owner

    def claim(self, key: IdempotencyKey, object_id: str, answer: str, expires_at: Instant) -> bool:
        """Claim the key; of concurrent callers exactly one gets True, until the key expires."""
        claimed = self.db.run(
            "INSERT INTO idempotency_keys (owner, client_id, kind, name, request, object_id,"
            " answer, expires_at) VALUES (:owner, :client_id, :kind, :name, :request, :object_id,"
            " :answer, :expires_at)"
            " ON CONFLICT (owner, client_id, kind, name) DO NOTHING",
            owner=self.owner,
            client_id=key.client_id,
            kind=self.kind,
            name=key.name,
            request=key.request,
            object_id=object_id,
            answer=answer,
            expires_at=expires_at,
        )
        return claimed == 1

    def answered(self, key: IdempotencyKey) -> StoredResponse | None:
        """Return the response to the request that claimed the key."""
        row = self.db.row(
            "SELECT request, object_id, answer FROM idempotency_keys"
            " WHERE owner = :owner AND client_id = :client_id AND kind = :kind AND name = :name",
            owner=self.owner,
            client_id=key.client_id,
            kind=self.kind,
            name=key.name,
        )
        return None if row is None else StoredResponse(*row)


CREATED = "created_at"
CHANGED = "changed_at"

COMPARED = 100
"""Bytes of a text that take part in the order; beyond, ids decide."""

BEFORE_ALL = ListPosition("", "")
AFTER_ALL = ListPosition("2", "")
"""Sorts after everything, as BEFORE_ALL sorts before: text from `written` begins with 0 or 1."""

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
        for entry in sorted(entries, key=lambda list_entry: list_entry.list):
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

    def _where(self, position: ListPosition) -> dict[str, object]:
        return {
            "owner": self.owner,
            "kind": self.kind,
            "list": self.lists[0],
            "value": self.values[0],
            "place": position.value,
            "id": position.id,
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
        batch = _OWNED.all(
            db,
            "SELECT * FROM objects WHERE kind = :kind AND id > :id ORDER BY id LIMIT :limit",
            kind=kind,
            id=after,
            limit=_BATCH,
        )
        for stored, owner in batch:
            lists = Lists(db, kind, owner)
            lists.drop(stored.id)
            lists.insert(stored.id, orders.entries(stored))
        return batch[-1][0].id if len(batch) == _BATCH else None

    return enter_batch


def _placed(stored: Stored, value: str) -> tuple[Stored, ListPosition]:
    return stored, ListPosition(value, stored.id)


def _owned(stored: Stored, owner: Owner) -> tuple[Stored, Owner]:
    return stored, owner


_PLACED = Record(_placed, stored=STORED, value=Column(sql="e.place"))
_OWNED = Record(_owned, "objects", stored=STORED)
