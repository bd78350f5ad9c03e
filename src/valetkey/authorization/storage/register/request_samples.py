"""Samples of successful requests of clients: a bounded number of each kind, for a week."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.request_samples import RequestSample

SAMPLE_LIFETIME = days(7)
"""How long a sample is kept, as long as decision records."""

SLOTS = 101
"""Maximum number of samples of a client, endpoint and grant type.

A prime: requests at regular intervals, such as every hour, use all slots.
"""

_ID_DIGITS = 16


class StoredSample(Struct, frozen=True):
    """A sample, with what identifies it."""

    client_id: str
    method: str
    endpoint: str
    grant_type: str
    slot: int
    id: str
    """Digits, which every collation orders alike and before the reference of any refusal."""
    at: Instant
    status: int
    milliseconds: int
    scope: str
    request_id: str


SAMPLES = Record(StoredSample, "request_samples")


class StoredSamples(Struct, frozen=True):
    """Samples of requests, found by client."""

    db: Connection
    random: Callable[[int], bytes]

    def add(self, samples: Sequence[RequestSample], every: int) -> None:
        """Store samples of which there is one every so many seconds, whichever process took it."""
        # In one order everywhere: otherwise two processes could deadlock.
        for each in sorted(samples, key=_kind):
            stored = StoredSample(
                each.client_id,
                each.method,
                each.endpoint,
                each.grant_type,
                each.at // every % SLOTS,
                f"{int.from_bytes(self.random(8)) % 10**_ID_DIGITS:0{_ID_DIGITS}}",
                each.at,
                each.status,
                each.milliseconds,
                each.scope,
                each.request_id,
            )
            SAMPLES.send(
                self.db,
                "INSERT INTO request_samples (*) VALUES (*)"
                " ON CONFLICT (client_id, method, endpoint, grant_type, slot) DO UPDATE SET"
                " id = :id, at = :at, status = :status, milliseconds = :milliseconds,"
                " scope = :scope, request_id = :request_id WHERE request_samples.at <= :before",
                stored,
                before=each.at - every,
            )

    def of_client(
        self, client_id: str, before: Instant, before_id: str, limit: int
    ) -> Sequence[StoredSample]:
        """Return at most `limit` samples of one client, newest first, before a position."""
        return SAMPLES.all(
            self.db,
            "SELECT * FROM request_samples WHERE client_id = :client_id AND (at < :before"
            " OR (at = :before AND id < :before_id)) ORDER BY at DESC, id DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_id=before_id,
            limit=limit,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` samples that are too old."""
        return self.db.run(
            "DELETE FROM request_samples WHERE at <= :before"
            " AND (client_id, method, endpoint, grant_type, slot) IN"
            " (SELECT client_id, method, endpoint, grant_type, slot FROM request_samples"
            " WHERE at <= :before ORDER BY at LIMIT :limit)",
            before=now - SAMPLE_LIFETIME,
            limit=limit,
        )

    def sweep_beyond(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the samples beyond the newest `keep`."""
        row = self.db.row(
            "SELECT at FROM request_samples ORDER BY at DESC LIMIT 1 OFFSET :keep", keep=keep
        )
        return 0 if row is None else self.sweep(Instant(row[0] + SAMPLE_LIFETIME), limit)


def _kind(sample: RequestSample) -> tuple[str, str, str, str, Instant]:
    return sample.client_id, sample.method, sample.endpoint, sample.grant_type, sample.at
