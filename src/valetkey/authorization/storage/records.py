"""What happened (events) and why something was refused (decisions)."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as made

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.event.actor import DoneBy, read_back, written
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.event.factors import SecondFactorFailed
from valetkey.authorization.model.event.sessions import (
    IdentityConfirmed,
    SessionRenewed,
    SessionStarted,
    SignInFailed,
)
from valetkey.authorization.model.server.decision import Decision
from valetkey.database.engine import Connection, Row
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, hours, later
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import fresh_reference, ordered_id
from valetkey.web.rate_limit import Buckets

DECISION_LIFETIME = days(7)
"""How long the reasons of a refusal can be read."""

_QUEUED = 10_000
_CLAIMED = (60, hours(2))
_PROVEN = (500, hours(1))
"""Records that name one client: so many at once, and as many again over that time. Anybody can be
refused in the name of any client, and what a client itself does must not be hidden by that."""
_LONGEST = 1_000


_SIGN_INS = (SessionStarted, SessionRenewed, IdentityConfirmed)


class NoActor(ValueError):
    """An event was to be written without anybody who did it: a mistake of the program."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as it was written; `data` is JSON."""

    id: str
    at: Instant
    name: str
    client_id: str | None
    uid: int | None
    grant_id: str | None
    data: str
    done_by: DoneBy
    """Who did it."""


def count(events: Iterable[Event]) -> None:
    """Count events that were committed."""
    for event in events:
        metrics.EVENTS.add(event.name)
        if isinstance(event, _SIGN_INS):
            metrics.SIGN_INS.add("+".join(event.methods), "succeeded")
        elif isinstance(event, SignInFailed):
            metrics.SIGN_INS.add("pwd", "failed")
        elif isinstance(event, SecondFactorFailed):
            metrics.SIGN_INS.add("second_factor", "failed")


class Events(Struct, frozen=True):
    """The audit log: only ever added to, in the transaction that made the change."""

    db: Connection
    random: Callable[[int], bytes]
    done_by: DoneBy | None
    noted: list[Event] = field(default_factory=list[Event])

    def add(self, event: Event, now: Instant) -> None:
        """Write it down, with the transaction's actor or the usual one of such an event.

        Raises NoActor where there is neither: such a transaction is rolled back.
        """
        uid: int | None = getattr(event, "uid", None)
        client_id: str | None = getattr(event, "client_id", None)
        by = event.usual_actor if self.done_by is None else written(self.done_by, uid, client_id)
        if not by:
            raise NoActor(f"nobody is named who did this: {event.name}")
        self.db.send(
            "INSERT INTO events (id, at, name, client_id, uid, grant_id, data, done_by)"
            " VALUES (:id, :at, :name, :client_id, :uid, :grant_id, :data, :done_by)",
            id=ordered_id("ev", now, self.random),
            at=now,
            name=event.name,
            client_id=client_id,
            uid=uid,
            grant_id=getattr(event, "grant_id", None),
            data=msgspec.json.encode(event).decode(),
            done_by=by,
        )
        self.noted.append(event)

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` of those written before `before`."""
        return self.db.run(
            "DELETE FROM events WHERE id IN"
            " (SELECT id FROM events WHERE at < :before ORDER BY at, id LIMIT :limit)",
            before=before,
            limit=limit,
        )

    def page(self, at: Instant, after: str, limit: int) -> Sequence[EventRecord]:
        """At most `limit` in the order of time, beginning after that place."""
        rows = self.db.rows(
            "SELECT id, at, name, client_id, uid, grant_id, data, done_by FROM events"
            " WHERE at > :at OR (at = :at AND id > :after) ORDER BY at, id LIMIT :limit",
            at=at,
            after=after,
            limit=limit,
        )
        return [event_of(row) for row in rows]

    def newest(self, limit: int) -> Sequence[EventRecord]:
        """The last `limit`, in the order of time."""
        rows = self.db.rows(
            "SELECT id, at, name, client_id, uid, grant_id, data, done_by FROM events"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            limit=limit,
        )
        return [event_of(row) for row in reversed(rows)]

    def of_person(
        self, uid: int, before: Instant, before_id: str, limit: int, kind: str | None = None
    ) -> Sequence[EventRecord]:
        """At most `limit` that people are told of, newest first, beginning before that place.

        Of one `kind` or, without it, of all.
        """
        rows = self.db.rows(
            "SELECT id, at, name, client_id, uid, grant_id, data, done_by FROM events"
            " WHERE uid = :uid AND (at < :before OR (at = :before AND id < :before_id)) AND"
            " ((:kind IN ('', 'sign_in') AND name IN ('session.started', 'session.renewed',"
            " 'session.ended', 'sign_in.failed', 'second_factor.failed', 'recovery_code.used',"
            " 'device.remembered', 'device.forgotten', 'device.stolen'))"
            " OR (:kind IN ('', 'security') AND name IN ('password.changed',"
            " 'password.removed', 'passkey.added', 'passkey.renamed', 'passkey.removed',"
            " 'passkey_counter.fallen', 'authenticator.added', 'authenticator.removed',"
            " 'recovery_codes.issued', 'factors.removed', 'identity.linked',"
            " 'identity.unlinked', 'password_reset.requested', 'email.restored',"
            " 'api_token.issued', 'api_token.ended'))"
            " OR (:kind IN ('', 'apps') AND name IN ('consent.given', 'consent.denied',"
            " 'consent.withdrawn', 'code.redeemed', 'grant.revoked'))"
            " OR (:kind IN ('', 'account') AND name IN ('user.registered', 'user.changed',"
            " 'user.disabled', 'user.enabled', 'user.removed', 'removal.planned',"
            " 'removal.cancelled', 'data.exported', 'role.changed', 'owner_link.redeemed',"
            " 'developer.admitted', 'developer.dismissed', 'team_member.added',"
            " 'team_member.changed', 'team_member.removed'))"
            ") ORDER BY at DESC, id DESC LIMIT :limit",
            uid=uid,
            before=before,
            before_id=before_id,
            kind=kind or "",
            limit=limit,
        )
        return [event_of(row) for row in rows]

    def all_of_person(self, uid: int, limit: int) -> Sequence[EventRecord]:
        """The last `limit` of everything that names this person, newest first."""
        rows = self.db.rows(
            "SELECT id, at, name, client_id, uid, grant_id, data, done_by FROM events"
            " WHERE uid = :uid ORDER BY at DESC, id DESC LIMIT :limit",
            uid=uid,
            limit=limit,
        )
        return [event_of(row) for row in rows]

    def withdrew(self, uid: int, client_id: str, since: Instant) -> bool:
        """Whether this person has ended something of this client since then."""
        row = self.db.row(
            "SELECT id FROM events WHERE uid = :uid AND at >= :since AND client_id = :client_id"
            " AND name IN ('consent.withdrawn', 'grant.revoked') LIMIT 1",
            uid=uid,
            since=since,
            client_id=client_id,
        )
        return row is not None

    def newest_of_client(self, client_id: str) -> Instant:
        """When something last happened to this client: no token of it was issued later."""
        row = self.db.row(
            "SELECT max(at) FROM events WHERE client_id = :client_id", client_id=client_id
        )
        return Instant(0) if row is None or row[0] is None else Instant(row[0])

    def newest_of_person(self, uid: int) -> Instant:
        """The same for a person."""
        row = self.db.row("SELECT max(at) FROM events WHERE uid = :uid", uid=uid)
        return Instant(0) if row is None or row[0] is None else Instant(row[0])

    def find(self, id: str) -> EventRecord | None:
        """One of them."""
        row = self.db.row(
            "SELECT id, at, name, client_id, uid, grant_id, data, done_by FROM events"
            " WHERE id = :id",
            id=id,
        )
        return None if row is None else event_of(row)


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decision records, found by the reference that the refusal carried."""

    db: Connection

    def add(self, decision: Decision) -> None:
        """Keep it until it expires."""
        self.db.send(
            "INSERT INTO decisions (reference, at, endpoint, code, checked, description, expected,"
            " received, client_id, expires_at)"
            " VALUES (:reference, :at, :endpoint, :code, :checked, :description, :expected,"
            " :received, :client_id, :expires_at) ON CONFLICT (reference) DO NOTHING",
            reference=decision.reference,
            at=decision.at,
            endpoint=decision.endpoint,
            code=decision.code,
            checked=decision.check,
            description=decision.description,
            expected=decision.expected,
            received=decision.received,
            client_id=decision.client_id,
            expires_at=decision.expires_at,
        )

    def find(self, reference: str) -> Decision | None:
        """The record behind a reference."""
        row = self.db.row(
            "SELECT reference, at, endpoint, code, checked, description, expected, received,"
            " client_id, expires_at FROM decisions WHERE reference = :reference",
            reference=reference,
        )
        return None if row is None else Decision(*row)

    def of_client(
        self, client_id: str, before: Instant, before_reference: str, limit: int, code: str = ""
    ) -> Sequence[Decision]:
        """At most `limit` of one client, newest first, beginning before that place.

        With a `code` only those of that error.
        """
        rows = self.db.rows(
            "SELECT reference, at, endpoint, code, checked, description, expected, received,"
            " client_id, expires_at FROM decisions WHERE client_id = :client_id"
            " AND (at < :before OR (at = :before AND reference < :before_reference))"
            " AND (:code = '' OR code = :code)"
            " ORDER BY at DESC, reference DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_reference=before_reference,
            code=code,
            limit=limit,
        )
        return [Decision(*row) for row in rows]

    def sweep_beyond(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the records beyond the newest `keep` that name a client."""
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE client_id IS NOT NULL"
            " ORDER BY at DESC LIMIT :limit OFFSET :keep)",
            keep=keep,
            limit=limit,
        )

    def sweep_nobodys(self, keep: int, limit: int) -> int:
        """The same for those that name none.

        Anybody can be refused as often as they like: what that leaves behind is bounded, and does
        not push out what an app's developer may want to read.
        """
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE client_id IS NULL"
            " ORDER BY at DESC LIMIT :limit OFFSET :keep)",
            keep=keep,
            limit=limit,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` records that expired."""
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class DecisionQueue:
    """Decisions on their way to the database: a refusal does not wait for a disk.

    At most 10,000 wait; under a flood of refusals the oldest records are lost, not the answers.
    Of one client so many are kept as its developers can read; what a flood brings beyond that is
    nobody's: only the operator finds it, by its reference.
    """

    random: Callable[[int], bytes]
    waiting: deque[Decision] = made(default_factory=lambda: deque(maxlen=_QUEUED))
    claimed: Buckets = made(default_factory=lambda: Buckets(*_CLAIMED))
    proven: Buckets = made(default_factory=lambda: Buckets(*_PROVEN))

    def put(
        self,
        refusal: Refusal,
        *,
        endpoint: str,
        at: Instant,
        client_id: str | None = None,
        proven: bool = False,
    ) -> str:
        """The reference that the refusal is to carry, such as VK-7F3K-9QXM-2RTD.

        `client_id`, or else what the refusal is about, is whose record it is; `proven` says that
        this client sent the request, and nobody in its name.
        """
        whose = client_id or refusal.about
        metrics.REFUSALS.add(_kept(refusal.check))
        # Nobody's are counted as well: how long this takes must not tell whether a client exists.
        full = (self.proven if proven else self.claimed).take(whose, at)
        reference = fresh_reference(self.random)
        self.waiting.append(
            Decision(
                reference=reference,
                at=at,
                endpoint=_kept(endpoint),
                code=refusal.code.value,
                check=_kept(refusal.check),
                description=_kept(refusal.description),
                expected=_kept(refusal.expected),
                received=_kept(refusal.received),
                client_id=None if full else whose or None,
                expires_at=later(at, DECISION_LIFETIME),
            )
        )
        return reference

    def drain(self, most: int = _QUEUED) -> Sequence[Decision]:
        """At most so many of those that wait, oldest first, taken out."""
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def give_back(self, decisions: Sequence[Decision]) -> None:
        """Let them wait again, as many of the newest of them as there is room for."""
        room = _QUEUED - len(self.waiting)
        self.waiting.extendleft(tuple(reversed(decisions))[:room])


def _kept(text: str) -> str:
    # Short, and nothing that a database refuses: one such record would hold up all others.
    return text[:_LONGEST].encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def event_of(row: Row) -> EventRecord:
    """The event of a row: id, time, name, client, user, grant, data, actor."""
    done_by = read_back(row[7], uid=row[4], client_id=row[3])
    return EventRecord(row[0], Instant(row[1]), row[2], row[3], row[4], row[5], row[6], done_by)
