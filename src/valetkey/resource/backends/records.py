"""Records: the interface of every place that stores objects, our own database, and its lists."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct, field

from valetkey.database.engine import Connection, Engine
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret, fresh_id
from valetkey.kernel.shapes import Document
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.requests.patches import Patch
from valetkey.resource.requests.representation import OTHER_BODY, Preconditions
from valetkey.resource.resource_object import NOTHING, ResourceObject, check_read_only
from valetkey.resource.storage import objects
from valetkey.resource.storage.events import (
    Event,
    Events,
    ObjectChanged,
    ObjectCreated,
    ObjectDeleted,
    ObjectReplaced,
    done,
)
from valetkey.resource.storage.objects import (
    CREATED,
    ONE,
    REMEMBERED,
    IdempotencyKey,
    IdempotencyKeys,
    Intersection,
    ListPosition,
    Lists,
    Objects,
    Owner,
    Stored,
    list_name,
    written,
)
from valetkey.sdk.caller import Caller

EXAMINED = 1_000
"""Maximum number of objects examined for one page, however few match its filters."""

LARGEST = 4 * 1024 * 1024
"""Bytes of documents after which a page is full: two hundred objects may have 1 MiB each."""

_MOST_READ = 8 * LARGEST
_FIRST = 16  # objects read before their size is known
_ROUNDS = 5
_Placed = Sequence[tuple[Stored, ListPosition]]


class _Page(Struct):
    """A page being filled, and the number of objects read for it."""

    request: PageRequest
    shown: list[Stored] = field(default_factory=list[Stored])
    examined: int = 0
    read: int = 0
    held: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether the page is full."""
        return (
            len(self.shown) == self.request.limit or self.held >= LARGEST or self.read >= _MOST_READ
        )

    @property
    def wants(self) -> int:
        """Return how many objects to read at once, to stay near the page's limit of bytes."""
        # One more than needed shows whether there is another page.
        number = self.request.limit - len(self.shown) + 1
        if not self.examined:
            return min(number, _FIRST)
        return min(number, max(_FIRST, LARGEST * self.examined // max(self.read, 1)))

    def take(self, stored: Stored) -> None:
        """Add the object to the page if it matches the filters."""
        self.examined += 1
        self.read += len(stored.document)
        if _fits(stored, self.request):
            self.shown.append(stored)
            self.held += len(stored.document)


def read_page(
    db: Connection, kind: ResourceObject, owner: Owner, page_request: PageRequest
) -> tuple[Sequence[Stored], ListPosition | None]:
    """Return the objects of a page, and the position of the next one; None after the last.

    The first filter selects a list, the second another list of equal order; further filters are
    compared one by one. With several filters, or with large objects, a page may hold fewer objects
    than requested and still have a next page.
    """
    if len(page_request.filters) > 1:
        return _read_both(db, kind, owner, page_request)
    filling, after = _Page(page_request), page_request.after
    while True:
        size = filling.wants
        batch = _batch(db, kind, owner, page_request, after, size)
        for stored, position in batch:
            if filling.is_full:
                return filling.shown, after
            after = position
            filling.take(stored)
        if len(batch) < size:
            return filling.shown, None
        if filling.examined >= EXAMINED:
            return filling.shown, after


def _read_both(
    db: Connection, kind: ResourceObject, owner: Owner, page_request: PageRequest
) -> tuple[Sequence[Stored], ListPosition | None]:
    (one, value), (other, its) = page_request.filters[:2]
    both = Intersection(
        db,
        kind.name,
        owner,
        (list_name(one, page_request.by), list_name(other, page_request.by)),
        (written(value), written(its)),
    )
    page, end = (
        (both.page_back, both.end_back) if page_request.descending else (both.page, both.end)
    )
    after = page_request.after or (
        objects.AFTER_ALL if page_request.descending else objects.BEFORE_ALL
    )
    filling = _Page(page_request)
    for _ in range(_ROUNDS):
        size, began = filling.wants, after
        batch = page(began, EXAMINED, size)
        for stored, position in batch:
            if filling.is_full:
                return filling.shown, after
            after = position
            # Compared again: further filters, and the part of long texts beyond their first bytes.
            filling.take(stored)
        if len(batch) < size:
            return filling.shown, end(began, EXAMINED)
    return filling.shown, after


def _batch(
    db: Connection,
    kind: ResourceObject,
    owner: Owner,
    page_request: PageRequest,
    after: ListPosition | None,
    size: int,
) -> _Placed:
    if page_request.by == CREATED and not page_request.filters:
        own = Objects(db, kind.name, owner)
        if page_request.descending:
            batch = own.page_back(after or objects.LAST_CREATED, size)
        else:
            batch = own.page(after or objects.FIRST_CREATED, size)
        return [(stored, ListPosition(stored.created_at, stored.id)) for stored in batch]
    filtered, value = page_request.filters[0] if page_request.filters else ("", "")
    name = list_name(filtered, page_request.by)
    under = written(value) if filtered else ""
    listed = Lists(db, kind.name, owner)
    if page_request.descending:
        return listed.page_back(name, under, after or objects.AFTER_ALL, size)
    return listed.page(name, under, after or objects.BEFORE_ALL, size)


def _fits(stored: Stored, page_request: PageRequest) -> bool:
    if not page_request.filters:
        return True
    fields = msgspec.json.decode(stored.document, type=dict[str, object])
    return all(fields.get(name) == value for name, value in page_request.filters)


NOT_FOUND = Refusal(ErrorCode.NOT_FOUND, "you have no such object", "object.not_found")
"""One response for objects that never existed, were deleted, or belong to another owner."""

_CONTENDED = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "others keep changing it at this moment",
    "object.contended",
    retry_after=1,
)
_TRIES = 8
_MOST_RECENT = 1_000
_LARGEST_RECENT = 8 * 1024


# Tuples, because each read creates one of both: a frozen dataclass takes three times as long.
class Visit(NamedTuple):
    """One request's caller, its token, the owner it acts for, and the time."""

    caller: Caller
    token: Secret
    owner: Owner
    now: Instant


class Representation(NamedTuple):
    """One object as callers see it: JSON, and a strong entity tag with its quotes."""

    id: str
    body: bytes
    etag: str
    replayed: bool = False
    """Whether an earlier request with the same idempotency key created it."""


class Listed(Struct, frozen=True):
    """One page of records, and the position of the next page; None after the last."""

    records: tuple[Representation, ...]
    next: ListPosition | None


Change = Callable[[Document], Document]
"""A function from the current writable fields to the new ones."""


class Records(Protocol):
    """The objects of one kind, wherever they are stored. Every method may raise Refused."""

    async def page(self, visit: Visit, page_request: PageRequest) -> Listed:
        """Return one page of the owner's objects."""
        ...

    async def find(self, visit: Visit, id: str) -> Representation:
        """Return the owner's object; `id` is "" for a singleton."""
        ...

    async def create(
        self, visit: Visit, fields: Document, key: IdempotencyKey | None
    ) -> Representation:
        """Create an object; for a reused idempotency key, return the one created first."""
        ...

    async def replace(
        self,
        visit: Visit,
        id: str,
        fields: Document,
        preconditions: Preconditions,
        read_only: Document = NOTHING,
    ) -> Representation:
        """Replace all writable fields; Invalid is raised unless the record shows `told`."""
        ...

    async def change(
        self,
        visit: Visit,
        id: str,
        patch: Patch,
        preconditions: Preconditions,
        read_only: Document = NOTHING,
    ) -> Representation:
        """Apply `patch`; Invalid is raised unless the record shows `told`."""
        ...

    async def delete(self, visit: Visit, id: str, preconditions: Preconditions) -> None:
        """Delete the object."""
        ...


class Recent:
    """A bounded cache of records, valid until anything is committed."""

    __slots__ = ("_mark", "_records")

    def __init__(self) -> None:
        """Start empty."""
        self._mark: bytes | None = None
        self._records: dict[tuple[Owner, str], Representation] = {}

    def find(self, mark: bytes | None, owner: Owner, id: str) -> Representation | None:
        """Return the cached record if the engine's mark is unchanged; None: read it again."""
        if mark is None or mark != self._mark:
            return None
        return self._records.get((owner, id))

    def add(self, mark: bytes | None, owner: Owner, record: Representation) -> None:
        """Cache the record unless it is too large."""
        if mark is None or len(record.body) > _LARGEST_RECENT:
            return
        if mark != self._mark:
            self._records.clear()
            self._mark = mark
        if len(self._records) >= _MOST_RECENT:
            del self._records[next(iter(self._records))]
        self._records[owner, record.id] = record


class LocalRecords(Struct, frozen=True):
    """Objects in this server's own database; each change is durable before the response."""

    engine: Engine
    kind: ResourceObject
    random: Callable[[int], bytes]
    recent: Recent = field(default_factory=Recent)

    async def page(self, visit: Visit, page_request: PageRequest) -> Listed:
        """Return a page; with several filters it may be short or empty and still have a next."""

        def find_page(db: Connection) -> Listed:
            shown, more = read_page(db, self.kind, visit.owner, page_request)
            return Listed(tuple(_record(stored) for stored in shown), more)

        return await self.engine.scan(find_page)

    async def find(self, visit: Visit, id: str) -> Representation:
        """Return the object. Raises Refused (404)."""
        # Taken before the read: a commit in the meantime changes the mark.
        mark = self.engine.mark()
        cached_record = self.recent.find(mark, visit.owner, id)
        if mark is not None:
            metrics.CACHE.add("records", "miss" if cached_record is None else "hit")
        if cached_record is not None:
            return cached_record
        row = await self.engine.row(ONE, id=id, kind=self.kind.name, owner=visit.owner)
        if row is None:
            raise Refused(NOT_FOUND)
        record = _shown(*row)
        self.recent.add(mark, visit.owner, record)
        return record

    async def create(
        self, visit: Visit, fields: Document, key: IdempotencyKey | None
    ) -> Representation:
        """Create an object. Raises Refused (422) for a key used with another body."""
        new_id = fresh_id(self.kind.name.removesuffix("s"), self.random)
        new = Stored(new_id, msgspec.json.encode(fields).decode(), 1, visit.now, visit.now)
        record = _record(new)

        def add_object(db: Connection) -> Representation:
            if key is not None:
                keys = IdempotencyKeys(db, self.kind.name, visit.owner)
                end = later(visit.now, REMEMBERED)
                if not keys.claim(key, new_id, record.body.decode(), end):
                    return _answered(keys, key)
            self._objects(db, visit).add(new)
            self._enter(db, visit, new)
            self._record_event(db, visit, ObjectCreated, new_id, new.version)
            return record

        return await self.engine.write(add_object)

    async def replace(
        self,
        visit: Visit,
        id: str,
        fields: Document,
        preconditions: Preconditions,
        read_only: Document = NOTHING,
    ) -> Representation:
        """Replace all writable fields. Raises Refused (404, 412)."""
        return await self._write(
            visit, id, lambda _: fields, preconditions, ObjectReplaced, read_only
        )

    async def change(
        self,
        visit: Visit,
        id: str,
        patch: Patch,
        preconditions: Preconditions,
        read_only: Document = NOTHING,
    ) -> Representation:
        """Apply `patch`. Raises Refused (404, 409, 412) and Invalid."""
        kind = self.kind

        def changed(before: Document) -> Document:
            return patch.applied(kind, kind.fields_of(before))

        return await self._write(visit, id, changed, preconditions, ObjectChanged, read_only)

    async def delete(self, visit: Visit, id: str, preconditions: Preconditions) -> None:
        """Delete the object; its id is never reused. Raises Refused (404, 412)."""

        def remove_object(db: Connection) -> None:
            objects = self._objects(db, visit)
            for _ in range(_TRIES):
                before = _require(objects, id, preconditions)
                if objects.remove(before):
                    if self.kind.orders:
                        Lists(db, self.kind.name, visit.owner).drop(id)
                    self._record_event(db, visit, ObjectDeleted, id, before.version + 1)
                    return
            raise Refused(_CONTENDED)

        await self.engine.write(remove_object)

    async def _write(
        self,
        visit: Visit,
        id: str,
        change: Change,
        preconditions: Preconditions,
        event: type[Event],
        read_only: Document,
    ) -> Representation:
        def change_object(db: Connection) -> Representation:
            objects = self._objects(db, visit)
            # After a lost race the object is read again: the preconditions must hold for its new
            # state.
            for _ in range(_TRIES):
                before = _require(objects, id, preconditions)
                if read_only:
                    shown = msgspec.json.decode(_record(before).body, type=dict[str, object])
                    check_read_only(read_only, shown)
                fields = msgspec.json.decode(before.document, type=dict[str, object])
                document = msgspec.json.encode(change(fields)).decode()
                if document == before.document:
                    return _record(before)
                after = objects.change(before, document, visit.now)
                if after is not None:
                    self._enter(db, visit, after, before)
                    self._record_event(db, visit, event, id, after.version)
                    return _record(after)
            raise Refused(_CONTENDED)

        return await self.engine.write(change_object)

    def _enter(
        self, db: Connection, visit: Visit, now: Stored, before: Stored | None = None
    ) -> None:
        orders = self.kind.orders
        if not orders:
            return
        entries = orders.entries(now)
        if before is not None and orders.entries(before) == entries:
            return
        lists = Lists(db, self.kind.name, visit.owner)
        if before is not None:
            lists.drop(now.id)
        lists.insert(now.id, entries)

    def _record_event(
        self, db: Connection, visit: Visit, event: type[Event], id: str, version: int
    ) -> None:
        Events(db).add(done(event, self.kind.name, id, version, visit.caller), visit.now)

    def _objects(self, db: Connection, visit: Visit) -> Objects:
        return Objects(db, self.kind.name, visit.owner)


def _require(objects: Objects, id: str, preconditions: Preconditions) -> Stored:
    stored = objects.find(id)
    if stored is None:
        # 404 also with If-Match: the response must not reveal whether the object ever existed.
        raise Refused(NOT_FOUND)
    preconditions.check(_etag(stored))
    return stored


def _answered(keys: IdempotencyKeys, key: IdempotencyKey) -> Representation:
    first = keys.answered(key)
    if first is None:
        # It expired between the two statements; the next attempt claims it.
        raise Refused(_CONTENDED)
    if first.request != key.request:
        raise Refused(OTHER_BODY)
    return Representation(first.object_id, first.answer.encode(), '"1"', replayed=True)


def _etag(stored: Stored) -> str:
    return f'"{stored.version}"'


def _record(stored: Stored) -> Representation:
    return _shown(stored.id, stored.document, stored.version, stored.created_at, stored.changed_at)


def _shown(
    id: str, document: str, version: int, created_at: int, changed_at: int
) -> Representation:
    # The document is a JSON object that we wrote, without our own names: it can be inserted between
    # them without parsing it.
    name = msgspec.json.encode(id).decode()
    fields = document[1:-1]
    body = (
        f'{{"id":{name},{fields}{"," if fields else ""}"created_at":{created_at},'
        f'"changed_at":{changed_at},"version":{version}}}'
    )
    return Representation(id, body.encode(), f'"{version}"')
