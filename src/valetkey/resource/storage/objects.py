"""Objects: the users' data, one row each for every kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant

Owner = NewType("Owner", str)
"""The owner of the data: `user:<uid>` or `client:<client_id>`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object as stored in its row; `document` is JSON. The version starts at 1."""

    id: str
    document: str
    version: int
    created_at: Instant
    changed_at: Instant


@dataclass(frozen=True, slots=True)
class ListPosition:
    """A position in a list: after the object with this id, whose sort field has this value."""

    value: int | str
    id: str


FIRST = ListPosition(-1, "")
LAST = ListPosition(2**62, "")
"""Sorts after all objects in creation order, as FIRST sorts before them."""


ONE = (
    "SELECT id, document, version, created_at, changed_at FROM objects"
    " WHERE id = :id AND kind = :kind AND owner = :owner"
)
"""SQL for one object of one owner, columns in the order of `Stored`."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one kind and one owner; other owners' objects are not visible."""

    db: Connection
    kind: str
    owner: Owner

    def find(self, id: str) -> Stored | None:
        """Return the object; None if it does not exist or belongs to another owner."""
        row = self.db.row(ONE, id=id, kind=self.kind, owner=self.owner)
        return None if row is None else stored_of(row)

    def page(self, after: ListPosition, limit: int) -> Sequence[Stored]:
        """Return at most `limit` objects in creation order after a position."""
        rows = self.db.rows(
            "SELECT id, document, version, created_at, changed_at FROM objects"
            " WHERE owner = :owner AND kind = :kind"
            " AND (created_at, id) > (:at, :id)"
            " ORDER BY created_at, id LIMIT :limit",
            owner=self.owner,
            kind=self.kind,
            at=after.value,
            id=after.id,
            limit=limit,
        )
        return [stored_of(row) for row in rows]

    def page_back(self, before: ListPosition, limit: int) -> Sequence[Stored]:
        """Return at most `limit` objects created before a position, the newest first."""
        rows = self.db.rows(
            "SELECT id, document, version, created_at, changed_at FROM objects"
            " WHERE owner = :owner AND kind = :kind"
            " AND (created_at, id) < (:at, :id)"
            " ORDER BY created_at DESC, id DESC LIMIT :limit",
            owner=self.owner,
            kind=self.kind,
            at=before.value,
            id=before.id,
            limit=limit,
        )
        return [stored_of(row) for row in rows]

    def add(self, new: Stored) -> None:
        """Insert a new object."""
        self.db.send(
            "INSERT INTO objects (id, kind, owner, document, version, created_at, changed_at)"
            " VALUES (:id, :kind, :owner, :document, :version, :created_at, :changed_at)",
            id=new.id,
            kind=self.kind,
            owner=self.owner,
            document=new.document,
            version=new.version,
            created_at=new.created_at,
            changed_at=new.changed_at,
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


def stored_of(row: Row) -> Stored:
    """Return the object of a row that begins with the columns of Stored."""
    return Stored(row[0], row[1], row[2], Instant(row[3]), Instant(row[4]))
