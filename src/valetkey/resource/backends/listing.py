"""Read one page of a list from the database in time independent of the list's length."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct, field

from valetkey.database.engine import Connection
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.resource_object import ResourceObject
from valetkey.resource.storage import objects
from valetkey.resource.storage.objects import (
    CREATED,
    Intersection,
    ListPosition,
    Lists,
    Objects,
    Owner,
    Stored,
    list_name,
    written,
)

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

    asked: PageRequest
    shown: list[Stored] = field(default_factory=list[Stored])
    examined: int = 0
    read: int = 0
    held: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether the page is full."""
        return (
            len(self.shown) == self.asked.limit or self.held >= LARGEST or self.read >= _MOST_READ
        )

    @property
    def wants(self) -> int:
        """Return how many objects to read at once, to stay near the page's limit of bytes."""
        # One more than needed shows whether there is another page.
        wanted = self.asked.limit - len(self.shown) + 1
        if not self.examined:
            return min(wanted, _FIRST)
        return min(wanted, max(_FIRST, LARGEST * self.examined // max(self.read, 1)))

    def take(self, stored: Stored) -> None:
        """Add the object to the page if it matches the filters."""
        self.examined += 1
        self.read += len(stored.document)
        if _fits(stored, self.asked):
            self.shown.append(stored)
            self.held += len(stored.document)


def read_page(
    db: Connection, kind: ResourceObject, owner: Owner, asked: PageRequest
) -> tuple[Sequence[Stored], ListPosition | None]:
    """Return the objects of a page, and the position of the next one; None after the last.

    The first filter selects a list, the second another list of equal order; further filters are
    compared one by one. With several filters, or with large objects, a page may hold fewer objects
    than requested and still have a next page.
    """
    if len(asked.filters) > 1:
        return _read_both(db, kind, owner, asked)
    filling, after = _Page(asked), asked.after
    while True:
        size = filling.wants
        found = _batch(db, kind, owner, asked, after, size)
        for stored, place in found:
            if filling.is_full:
                return filling.shown, after
            after = place
            filling.take(stored)
        if len(found) < size:
            return filling.shown, None
        if filling.examined >= EXAMINED:
            return filling.shown, after


def _read_both(
    db: Connection, kind: ResourceObject, owner: Owner, asked: PageRequest
) -> tuple[Sequence[Stored], ListPosition | None]:
    (one, value), (other, its) = asked.filters[:2]
    both = Intersection(
        db,
        kind.name,
        owner,
        (list_name(one, asked.by), list_name(other, asked.by)),
        (written(value), written(its)),
    )
    page, end = (both.page_back, both.end_back) if asked.descending else (both.page, both.end)
    after = asked.after or (objects.AFTER_ALL if asked.descending else objects.BEFORE_ALL)
    filling = _Page(asked)
    for _ in range(_ROUNDS):
        size, began = filling.wants, after
        found = page(began, EXAMINED, size)
        for stored, place in found:
            if filling.is_full:
                return filling.shown, after
            after = place
            # Compared again: further filters, and the part of long texts beyond their first bytes.
            filling.take(stored)
        if len(found) < size:
            return filling.shown, end(began, EXAMINED)
    return filling.shown, after


def _batch(
    db: Connection,
    kind: ResourceObject,
    owner: Owner,
    asked: PageRequest,
    after: ListPosition | None,
    size: int,
) -> _Placed:
    if asked.by == CREATED and not asked.filters:
        own = Objects(db, kind.name, owner)
        if asked.descending:
            found = own.page_back(after or objects.LAST_CREATED, size)
        else:
            found = own.page(after or objects.FIRST_CREATED, size)
        return [(stored, ListPosition(stored.created_at, stored.id)) for stored in found]
    filtered, value = asked.filters[0] if asked.filters else ("", "")
    name = list_name(filtered, asked.by)
    under = written(value) if filtered else ""
    listed = Lists(db, kind.name, owner)
    if asked.descending:
        return listed.page_back(name, under, after or objects.AFTER_ALL, size)
    return listed.page(name, under, after or objects.BEFORE_ALL, size)


def _fits(stored: Stored, asked: PageRequest) -> bool:
    if not asked.filters:
        return True
    fields = msgspec.json.decode(stored.document, type=dict[str, object])
    return all(fields.get(name) == value for name, value in asked.filters)
