"""Listing: one page out of the database, in a time that does not depend on how much there is."""

from collections.abc import Sequence

import msgspec

from valetkey.database.engine import Connection
from valetkey.resource.requests.paging import Asked
from valetkey.resource.resource_object import ResourceObject
from valetkey.resource.storage import lists, objects
from valetkey.resource.storage.lists import CREATED, Both, Lists, list_name, written
from valetkey.resource.storage.objects import Objects, Owner, Place, Stored

EXAMINED = 1_000
"""Objects that are looked at for one page, however few of them fit its filters."""

_ROUNDS = 4
_Placed = Sequence[tuple[Stored, Place]]


def read_page(
    db: Connection, kind: ResourceObject, owner: Owner, asked: Asked
) -> tuple[Sequence[Stored], Place | None]:
    """The objects of a page, and behind which place the next one begins; None after the last.

    The first filter leads into the right list, the second into another of the same order; more are
    compared one by one. With several filters a page may hold fewer than were asked for, and there
    may be a next one all the same.
    """
    if len(asked.filters) > 1:
        return _read_both(db, kind, owner, asked)
    shown: list[Stored] = []
    after, examined = asked.after, 0
    while True:
        # One more than needed tells whether there is another.
        size = asked.limit - len(shown) + 1
        found = _batch(db, kind, owner, asked, after, size)
        for stored, place in found:
            if len(shown) == asked.limit:
                return shown, after
            after = place
            if _fits(stored, asked):
                shown.append(stored)
        examined += len(found)
        if len(found) < size:
            return shown, None
        if examined >= EXAMINED:
            return shown, after


def _read_both(
    db: Connection, kind: ResourceObject, owner: Owner, asked: Asked
) -> tuple[Sequence[Stored], Place | None]:
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
    shown: list[Stored] = []
    for _ in range(_ROUNDS):
        size, began = asked.limit - len(shown) + 1, after
        found = page(began, EXAMINED, size)
        for stored, place in found:
            if len(shown) == asked.limit:
                return shown, after
            after = place
            # A third value, and what long texts have beyond their first bytes.
            if _fits(stored, asked):
                shown.append(stored)
        if len(found) < size:
            return shown, end(began, EXAMINED)
    return shown, after


def _batch(
    db: Connection,
    kind: ResourceObject,
    owner: Owner,
    asked: Asked,
    after: Place | None,
    size: int,
) -> _Placed:
    if asked.by == CREATED and not asked.filters:
        own = Objects(db, kind.name, owner)
        if asked.descending:
            found = own.page_back(after or objects.LAST, size)
        else:
            found = own.page(after or objects.FIRST, size)
        return [(stored, Place(stored.created_at, stored.id)) for stored in found]
    filtered, value = asked.filters[0] if asked.filters else ("", "")
    name = list_name(filtered, asked.by)
    under = written(value) if filtered else ""
    listed = Lists(db, kind.name, owner)
    if asked.descending:
        return listed.page_back(name, under, after or lists.LAST, size)
    return listed.page(name, under, after or lists.FIRST, size)


def _fits(stored: Stored, asked: Asked) -> bool:
    if not asked.filters:
        return True
    fields = msgspec.json.decode(stored.document, type=dict[str, object])
    return all(fields.get(name) == value for name, value in asked.filters)
