"""Idempotency keys: a repeated request takes effect once and gets the first response."""

from dataclasses import dataclass

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant, hours
from valetkey.resource.storage.objects import Owner

REMEMBERED = hours(24)
"""How long a response is kept."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's name for one request: its key, and a hash of the request."""

    client_id: str
    name: str
    request: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The response to the first request with a key: `request` is its hash, `answer` JSON."""

    request: str
    object_id: str
    answer: str


@dataclass(frozen=True, slots=True)
class IdempotencyKeys:
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

    def answered(self, key: IdempotencyKey) -> Answered | None:
        """Return the response to the request that claimed the key."""
        row = self.db.row(
            "SELECT request, object_id, answer FROM idempotency_keys"
            " WHERE owner = :owner AND client_id = :client_id AND kind = :kind AND name = :name",
            owner=self.owner,
            client_id=key.client_id,
            kind=self.kind,
            name=key.name,
        )
        return None if row is None else Answered(*row)
