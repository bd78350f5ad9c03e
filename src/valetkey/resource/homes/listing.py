"""Listing: one page out of the database, in a time that does not depend on how much there is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from valetkey.database.engine import Connection
from valetkey.resource.requests.paging import PageRequest
from valetkey.resource.resource_object import ResourceObject
from valetkey.resource.storage import lists, objects
from valetkey.resource.storage.lists import CREATED, Both, Lists, list_name, written
from valetkey.resource.storage.objects import ListPosition, Objects, Owner, Stored

EXAMINED = 1_000
"""Objects that are looked at for one page, however few of them fit its filters."""

LARGEST = 4 * 1024 * 1024
"""Bytes of documents after which a page is full: two hundred objects may have 1 MiB each."""

_MOST_READ = 8 * LARGEST
_FIRST = 16  # objects that are read before it is known how large they are
_ROUNDS = 5
_Placed = Sequence[tuple[Stored, ListPosition]]


@dataclass(slots=True)
class _Page:
    """A page that fills, and what was read for it."""

    asked: PageRequest
    shown: list[Stored] = field(default_factory=list[Stored])
    examined: int = 0
    read: int = 0
    held: int = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more goes on it."""
        return (
            len(self.shown) == self.asked.limit or self.held >= LARGEST or self.read >= _MOST_READ
        )

    @property
    def wants(self) -> int:
        """How many objects to read at once: not much more bytes than a page may have."""
        # One more than needed tells whether there is another.
        wanted = self.asked.limit - len(self.shown) + 1
        if not self.examined:
            return min(wanted, _FIRST)
        return min(wanted, max(_FIRST, LARGEST * self.examined // max(self.read, 1)))

    def take(self, stored: Stored) -> None:
        """Show it, if it fits the filters."""
        self.examined += 1
        self.read += len(stored.document)
        if _fits(stored, self.asked):
            self.shown.append(stored)
            self.held += len(stored.document)


def read_page(
    db: Connection, kind: ResourceObject, owner: Owner, asked: PageRequest
) -> tuple[Sequence[Stored], ListPosition | None]:
    """The objects of a page, and behind which place the next one begins; None after the last.

    The first filter leads into the right list, the second into another of the same order; more are
    compared one by one. With several filters a page may hold fewer than were asked for, and there
    may be a next one all the same; so may a page of large objects.
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
    both = Both(
        db,
        kind.name,
        owner,
        (list_name(one, asked.by), list_name(other, asked.by)),
        (written(value), written(its)),
    )
    page, end = (both.page_back, both.end_back) if asked.descending else (both.page, both.end)
    after = asked.after or (lists.LAST if asked.descending else lists.FIRST)
    filling = _Page(asked)
    for _ in range(_ROUNDS):
        size, began = filling.wants, after
        found = page(began, EXAMINED, size)
        for stored, place in found:
            if filling.is_full:
                return filling.shown, after
            after = place
            # Compared again: a third value, and what long texts have beyond their first bytes.
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
            found = own.page_back(after or objects.LAST, size)
        else:
            found = own.page(after or objects.FIRST, size)
        return [(stored, ListPosition(stored.created_at, stored.id)) for stored in found]
    filtered, value = asked.filters[0] if asked.filters else ("", "")
    name = list_name(filtered, asked.by)
    under = written(value) if filtered else ""
    listed = Lists(db, kind.name, owner)
    if asked.descending:
        return listed.page_back(name, under, after or lists.LAST, size)
    return listed.page(name, under, after or lists.FIRST, size)


def _fits(stored: Stored, asked: PageRequest) -> bool:
    if not asked.filters:
        return True
    fields = msgspec.json.decode(stored.document, type=dict[str, object])
    return all(fields.get(name) == value for name, value in asked.filters)
