"""Listing: one page out of the database, in a time that does not depend on how much there is."""

from collections.abc import Sequence

import msgspec

from valetkey.database.engine import Connection
from valetkey.resource.requests.paging import Asked
from valetkey.resource.resource_object import ResourceObject
from valetkey.resource.storage import lists, objects
from valetkey.resource.storage.lists import CREATED, Lists, list_name, written
from valetkey.resource.storage.objects import Objects, Owner, Place, Stored

EXAMINED = 1_000
"""Objects that are looked at for one page, however few of them fit its filters."""

_AT_ONCE = 100
_Placed = Sequence[tuple[Stored, Place]]


def read_page(
    db: Connection, kind: ResourceObject, owner: Owner, asked: Asked
) -> tuple[Sequence[Stored], Place | None]:
    """The objects of a page, and behind which place the next one begins; None after the last.

    The first filter leads into the right list; the others are compared one by one, so a page may
    hold fewer than were asked for, and there may be a next one all the same.
    """
    shown: list[Stored] = []
    after, examined = asked.after, 0
    while True:
        # One more than needed tells whether there is another; where few may fit, more at once.
        size = max(asked.limit - len(shown) + 1, _AT_ONCE if len(asked.filters) > 1 else 0)
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
