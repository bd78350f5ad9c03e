"""What apps did: counts by day, last uses, samples of requests, and decision records."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct, field

from valetkey.authorization.model.api import ApiGeneration
from valetkey.database import decisions
from valetkey.database.decisions import DECISIONS, Decision
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant, days, hours
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.tracing import RequestSample
from valetkey.web.client_address import Buckets

EVERY_CLIENT = ""
"""The client under which the totals of all clients are counted."""

EVERY_CLIENT_BY_HOUR = "by hour"
"""The client under which totals are counted by hour, as `09.tokens`; no client's id has a space."""

_DAY = 86_400


def day_of(at: Instant) -> int:
    """Return the day in UTC, counted from 1970."""
    return at // _DAY


def start_of(day: int) -> Instant:
    """Return the first second of a day in UTC."""
    return Instant(day * _DAY)


def day_text(day: int) -> str:
    """Return the date of a day: 2026-11-21."""
    return f"{datetime.fromtimestamp(start_of(day), UTC):%Y-%m-%d}"


class Counted(Struct, frozen=True):
    """The count of one kind on one day."""

    day: int
    kind: str
    amount: int


class SecretUse(Struct, frozen=True):
    """When a client's secret was created and last used; `name` identifies it."""

    name: str
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None


class UsageCounters(Struct, frozen=True):
    """Counters that only background work adds to."""

    db: Connection

    def cursor(self) -> tuple[Instant, str]:
        """Return time and id of the last event that was counted."""
        row = self.db.row("SELECT at, event_id FROM usage_cursor WHERE name = 'events'")
        return (Instant(0), "") if row is None else (Instant(row[0]), row[1])

    def advance(self, before: tuple[Instant, str], after: tuple[Instant, str]) -> bool:
        """Move the cursor from `before`; exactly one concurrent caller gets True."""
        moved = self.db.run(
            "UPDATE usage_cursor SET at = :at, event_id = :id"
            " WHERE name = 'events' AND at = :before AND event_id = :before_id",
            at=after[0],
            id=after[1],
            before=before[0],
            before_id=before[1],
        )
        return moved == 1

    def count(self, client_id: str, day: int, kind: str, amount: int) -> None:
        """Add to a counter."""
        self.db.send(
            "INSERT INTO usage_counts (client_id, day, kind, amount)"
            " VALUES (:client_id, :day, :kind, :amount)"
            " ON CONFLICT (client_id, day, kind) DO UPDATE"
            " SET amount = usage_counts.amount + :amount",
            client_id=client_id,
            day=day,
            kind=kind,
            amount=amount,
        )

    def was_active(self, client_id: str, uid: int, day: int) -> bool:
        """Record that a user was active. True the first time on each day, for days in order."""
        noted = self.db.run(
            "INSERT INTO usage_people (client_id, uid, last_day) VALUES (:client_id, :uid, :day)"
            " ON CONFLICT (client_id, uid) DO UPDATE SET last_day = :day"
            " WHERE usage_people.last_day < :day",
            client_id=client_id,
            uid=uid,
            day=day,
        )
        return noted == 1

    def record(self, client_id: str, what: str, at: Instant) -> None:
        """Record the last time of this kind, unless a later one is known."""
        self.db.send(
            "INSERT INTO usage_latest (client_id, what, at) VALUES (:client_id, :what, :at)"
            " ON CONFLICT (client_id, what) DO UPDATE SET at = :at"
            " WHERE usage_latest.at < :at",
            client_id=client_id,
            what=what,
            at=at,
        )

    def since(self, client_id: str, day: int) -> Sequence[Counted]:
        """Return a client's counts of that day and later, in the order of days and kinds."""
        rows = self.db.rows(
            "SELECT day, kind, amount FROM usage_counts"
            " WHERE client_id = :client_id AND day >= :day ORDER BY day, kind",
            client_id=client_id,
            day=day,
        )
        return [Counted(*row) for row in rows]

    def active_since(self, client_id: str, day: int) -> int:
        """Return how many different users were active on that day or later."""
        row = self.db.row(
            "SELECT count(*) FROM usage_people WHERE client_id = :client_id AND last_day >= :day",
            client_id=client_id,
            day=day,
        )
        return 0 if row is None else int(row[0])

    def latest(self, client_id: str) -> Mapping[str, Instant]:
        """Return the last time of each kind."""
        rows = self.db.rows(
            "SELECT what, at FROM usage_latest WHERE client_id = :client_id", client_id=client_id
        )
        return dict(rows)

    def secrets_of(self, client_id: str) -> Sequence[SecretUse]:
        """Return its secrets, newest first; the name is their last letters, or their id."""
        return _SECRET_USES.all(
            self.db,
            "SELECT * FROM client_secrets WHERE client_id = :client_id"
            " ORDER BY created_at DESC, id",
            client_id=client_id,
        )

    def delete_client(self, client_id: str) -> None:
        """Delete everything about a client; the totals of all clients stay."""
        self.db.send("DELETE FROM usage_counts WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM usage_people WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM usage_latest WHERE client_id = :id", id=client_id)

    def sweep_counts(self, before_day: int, limit: int) -> int:
        """Delete at most `limit` counts of earlier days."""
        return self.db.run(
            "DELETE FROM usage_counts WHERE (client_id, day, kind) IN"
            " (SELECT client_id, day, kind FROM usage_counts WHERE day < :day"
            " ORDER BY day LIMIT :limit)",
            day=before_day,
            limit=limit,
        )

    def sweep_people(self, before_day: int, limit: int) -> int:
        """Delete at most `limit` users who were not active since that day."""
        return self.db.run(
            "DELETE FROM usage_people WHERE (client_id, uid) IN"
            " (SELECT client_id, uid FROM usage_people WHERE last_day < :day"
            " ORDER BY last_day LIMIT :limit)",
            day=before_day,
            limit=limit,
        )


_SECRET_USES = Record(
    SecretUse,
    "client_secrets",
    name=Column(sql="CASE WHEN ending = '' THEN id ELSE '…' || ending END"),
)


FORGOTTEN_AFTER = days(1)
"""A scope without reports for this long is no longer considered watched."""

_NOTED_EVERY = hours(1)


class ScopeUse(Struct, frozen=True):
    """The last use of a scope of a grant."""

    grant_id: str
    scope: str
    last_used_at: Instant


class ScopeUses(Struct, frozen=True):
    """At most one row for each scope of a grant, for as long as the grant could live."""

    db: Connection

    def record(self, use: ScopeUse, at: ApiGeneration = ("", 0)) -> bool:
        """Record a use at an API, unless a later one is known. The scope is that of grants.

        False if no live grant allows it there: the grant ended, or its part that was for the API.
        """
        row = self.db.row(
            "SELECT scope, expires_at FROM grants WHERE id = :id AND revoked_at IS NULL"
            " AND (:api = '' OR EXISTS (SELECT 1 FROM grant_apis a WHERE a.grant_id = :id"
            " AND a.api_id = :api AND a.generation = :generation))",
            id=use.grant_id,
            api=at[0],
            generation=at[1],
        )
        scope, expires_at = row or ("", 0)
        if not use.scope or use.scope not in scope.split(" "):
            return False
        self.db.send(
            "INSERT INTO scope_uses (grant_id, scope, last_used_at, expires_at)"
            " VALUES (:grant_id, :scope, :at, :expires_at)"
            " ON CONFLICT (grant_id, scope) DO UPDATE SET last_used_at = :at"
            " WHERE scope_uses.last_used_at < :at",
            grant_id=use.grant_id,
            scope=use.scope,
            at=use.last_used_at,
            expires_at=expires_at,
        )
        return True

    def of_grant(self, grant_id: str) -> Sequence[ScopeUse]:
        """Return every known use of this grant, one for each scope."""
        rows = self.db.rows(
            "SELECT grant_id, scope, last_used_at FROM scope_uses WHERE grant_id = :grant_id",
            grant_id=grant_id,
        )
        return [ScopeUse(*row) for row in rows]

    def watch(self, scopes: Collection[str], now: Instant) -> None:
        """Record that all uses of these scopes are reported; from now on, if there was a gap."""
        for scope in scopes:
            self.db.send(
                "INSERT INTO watched_scopes (scope, since, heard_at) VALUES (:scope, :now, :now)"
                " ON CONFLICT (scope) DO UPDATE SET heard_at = :now,"
                " since = CASE WHEN watched_scopes.heard_at < :gap THEN :now"
                " ELSE watched_scopes.since END WHERE watched_scopes.heard_at < :stale",
                scope=scope,
                now=now,
                gap=now - FORGOTTEN_AFTER,
                stale=now - _NOTED_EVERY,
            )

    def watched(self, now: Instant) -> Mapping[str, Instant]:
        """Return the watched scopes, and since when they are reported without a gap."""
        rows = self.db.rows(
            "SELECT scope, since FROM watched_scopes WHERE heard_at >= :gap",
            gap=now - FORGOTTEN_AFTER,
        )
        return dict(rows)

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` uses of expired grants."""
        return self.db.run(
            "DELETE FROM scope_uses WHERE expires_at <= :now AND (grant_id, scope) IN"
            " (SELECT grant_id, scope FROM scope_uses WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def sweep_watched(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` scopes that are no longer considered watched."""
        return self.db.run(
            "DELETE FROM watched_scopes WHERE heard_at < :gap AND scope IN"
            " (SELECT scope FROM watched_scopes WHERE heard_at < :gap"
            " ORDER BY heard_at LIMIT :limit)",
            gap=now - FORGOTTEN_AFTER,
            limit=limit,
        )


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
        for sample in sorted(samples, key=_kind):
            stored = StoredSample(
                sample.client_id,
                sample.method,
                sample.endpoint,
                sample.grant_type,
                sample.at // every % SLOTS,
                f"{int.from_bytes(self.random(8)) % 10**_ID_DIGITS:0{_ID_DIGITS}}",
                sample.at,
                sample.status,
                sample.milliseconds,
                sample.scope,
                sample.request_id,
            )
            SAMPLES.send(
                self.db,
                "INSERT INTO request_samples (*) VALUES (*)"
                " ON CONFLICT (client_id, method, endpoint, grant_type, slot) DO UPDATE SET"
                " id = :id, at = :at, status = :status, milliseconds = :milliseconds,"
                " scope = :scope, request_id = :request_id WHERE request_samples.at <= :before",
                stored,
                before=sample.at - every,
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


_CLAIMED = (60, hours(2))
_PROVEN = (500, hours(1))
"""Capacity and refill time of a client's bucket of records; `_CLAIMED` is for unproven requests.

Separate, because anyone can cause refusals by naming a client: they must not crowd out the refusals
of the client's own requests.
"""


class ClientDecisions(decisions.Decisions, frozen=True):
    """Decision records, found by reference or by client."""

    def of_client(
        self, client_id: str, before: Instant, before_reference: str, limit: int, code: str = ""
    ) -> Sequence[Decision]:
        """Return at most `limit` records of one client, newest first, before a position.

        With a `code` only those of that error.
        """
        return DECISIONS.all(
            self.db,
            "SELECT * FROM decisions WHERE client_id = :client_id AND (at < :before"
            " OR (at = :before AND reference < :before_reference)) AND (:code = '' OR code = :code)"
            " ORDER BY at DESC, reference DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_reference=before_reference,
            code=code,
            limit=limit,
        )

    def sweep_beyond(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the records that name a client, beyond the newest `keep`."""
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE client_id IS NOT NULL"
            " ORDER BY at DESC LIMIT :limit OFFSET :keep)",
            keep=keep,
            limit=limit,
        )

    def sweep_without_client(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the records that name no client, beyond the newest `keep`.

        Any caller can cause such refusals: they are bounded separately, so that they do not
        displace the records that an app's developer may want to read.
        """
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE client_id IS NULL"
            " ORDER BY at DESC LIMIT :limit OFFSET :keep)",
            keep=keep,
            limit=limit,
        )


class ClientDecisionQueue(decisions.DecisionQueue, frozen=True):
    """Decisions waiting to be written, of which each client gets as many as developers can read.

    Records beyond that name no client: only the operator finds them, by their reference.
    """

    claimed: Buckets = field(default_factory=lambda: Buckets(*_CLAIMED))
    proven: Buckets = field(default_factory=lambda: Buckets(*_PROVEN))

    def enqueue(
        self,
        refusal: Refusal,
        *,
        endpoint: str,
        at: Instant,
        client_id: str | None = None,
        proven: bool = False,
    ) -> str:
        """Queue the record and return its reference, such as VK-7F3K-9QXM-2RTD.

        `client_id`, or else the refusal's `about`, is the client of the record; `proven` says that
        this client was authenticated as the sender of the request.
        """
        whose = client_id or refusal.about
        # Records without a client are counted too: timing must not reveal whether a client exists.
        full = (self.proven if proven else self.claimed).take(whose, at)
        whose_record = None if full else whose or None
        # Named: a dataclass with slots is another class than the one that `super()` knows.
        return decisions.DecisionQueue.enqueue(
            self, refusal, endpoint=endpoint, at=at, client_id=whose_record
        )
