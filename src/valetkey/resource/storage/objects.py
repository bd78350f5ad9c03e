"""Objects: the users' data, one row each for every kind."""

from collections.abc import Sequence
from typing import NewType

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, hours

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


FIRST = ListPosition(-1, "")
LAST = ListPosition(2**62, "")
"""Sorts after all objects in creation order, as FIRST sorts before them."""


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
