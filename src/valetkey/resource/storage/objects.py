"""Objects: the users' data, one row each, whatever kind it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant

Owner = NewType("Owner", str)
"""`user:<uid>` or `client:<client_id>`: whose data it is."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object as its row has it; `document` is JSON. The version begins at 1."""

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
"""Before and behind all objects in the order of creation."""


ONE = (
    "SELECT id, document, version, created_at, changed_at FROM objects"
    " WHERE id = :id AND kind = :kind AND owner = :owner"
)
"""One object of one owner, in the order of `Stored`."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one kind and one owner; nobody else's can be seen through it."""

    db: Connection
    kind: str
    owner: Owner

    def find(self, id: str) -> Stored | None:
        """The object; None if there is none, or it is another's."""
        row = self.db.row(ONE, id=id, kind=self.kind, owner=self.owner)
        return None if row is None else stored_of(row)

    def page(self, after: ListPosition, limit: int) -> Sequence[Stored]:
        """At most `limit` objects in the order of their creation, beginning after that place."""
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
        """Write a new object."""
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
        """Put `document` in place of what `before` held; None if somebody was faster."""
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
        """Delete the object as `before` shows it; False if somebody was faster."""
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
    """The object of a row that begins with the columns of Stored."""
    return Stored(row[0], row[1], row[2], Instant(row[3]), Instant(row[4]))
