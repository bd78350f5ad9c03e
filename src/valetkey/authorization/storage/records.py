"""Stores of events (what happened) and decisions (why a request was refused)."""

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
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, hours, later
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import fresh_reference, ordered_id
from valetkey.web.rate_limit import Buckets

DECISION_LIFETIME = days(7)
"""How long a decision record is kept."""

_QUEUED = 10_000
_CLAIMED = (60, hours(2))
_PROVEN = (500, hours(1))
"""Capacity and refill time of a client's bucket of records; `_CLAIMED` is for unproven requests.

Separate, because anyone can cause refusals by naming a client: they must not crowd out the refusals
of the client's own requests.
"""

_LONGEST = 1_000


_SIGN_INS = (SessionStarted, SessionRenewed, IdentityConfirmed)


class NoActor(ValueError):
    """An event without an actor: a programming error."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A stored event; `data` is JSON."""

    id: str
    at: Instant
    name: str
    client_id: str | None
    uid: int | None
    grant_id: str | None
    data: str
    done_by: DoneBy
    """The actor."""


def count(events: Iterable[Event]) -> None:
    """Count committed events."""
    for event in events:
        metrics.EVENTS.add(event.name)
        if isinstance(event, _SIGN_INS):
            metrics.SIGN_INS.add("+".join(event.methods), "succeeded")
        elif isinstance(event, SignInFailed):
            metrics.SIGN_INS.add("pwd", "failed")
        elif isinstance(event, SecondFactorFailed):
            metrics.SIGN_INS.add("second_factor", "failed")


class Events(Struct, frozen=True):
    """The audit log: append-only, written in the transaction of the change."""

    db: Connection
    random: Callable[[int], bytes]
    done_by: DoneBy | None
    noted: list[Event] = field(default_factory=list[Event])

    def add(self, event: Event, now: Instant) -> None:
        """Append an event by the transaction's actor, or by the event's usual actor.

        Raises NoActor if there is neither, which rolls the transaction back.
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
        """Delete at most `limit` events written before `before`."""
        return self.db.run(
            "DELETE FROM events WHERE id IN"
            " (SELECT id FROM events WHERE at < :before ORDER BY at, id LIMIT :limit)",
            before=before,
            limit=limit,
        )

    def page(self, at: Instant, after: str, limit: int) -> Sequence[EventRecord]:
        """Return at most `limit` events in time order after a position."""
        return EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE at > :at OR (at = :at AND id > :after) ORDER BY at, id"
            " LIMIT :limit",
            at=at,
            after=after,
            limit=limit,
        )

    def newest(self, limit: int) -> Sequence[EventRecord]:
        """Return the last `limit` events in time order."""
        found = EVENTS.all(
            self.db, "SELECT * FROM events ORDER BY at DESC, id DESC LIMIT :limit", limit=limit
        )
        return found[::-1]

    def of_person(
        self, uid: int, before: Instant, before_id: str, limit: int, kind: str | None = None
    ) -> Sequence[EventRecord]:
        """Return at most `limit` events shown to the user, newest first, before a position.

        Of one `kind` or, without it, of all.
        """
        return EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE uid = :uid AND (at < :before OR (at = :before"
            " AND id < :before_id)) AND ((:kind IN ('', 'sign_in')"
            " AND name IN ('session.started', 'session.renewed', 'session.ended',"
            " 'sign_in.failed', 'second_factor.failed', 'recovery_code.used', 'device.remembered',"
            " 'device.forgotten', 'device.stolen')) OR (:kind IN ('', 'security')"
            " AND name IN ('password.changed', 'password.removed', 'passkey.added',"
            " 'passkey.renamed', 'passkey.removed', 'passkey_counter.fallen',"
            " 'authenticator.added', 'authenticator.removed', 'recovery_codes.issued',"
            " 'factors.removed', 'identity.linked', 'identity.unlinked',"
            " 'password_reset.requested', 'email.restored', 'api_token.issued', 'api_token.ended'))"
            " OR (:kind IN ('', 'apps')"
            " AND name IN ('consent.given', 'consent.denied', 'consent.withdrawn',"
            " 'code.redeemed', 'device_code.redeemed', 'grant.revoked'))"
            " OR (:kind IN ('', 'account') AND name IN ('user.registered',"
            " 'user.changed', 'user.disabled', 'user.enabled',"
            " 'user.removed', 'removal.planned', 'removal.cancelled', 'data.exported',"
            " 'role.changed', 'owner_link.redeemed', 'developer.admitted', 'developer.dismissed',"
            " 'team_member.added', 'team_member.changed', 'team_member.removed')))"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            uid=uid,
            before=before,
            before_id=before_id,
            kind=kind or "",
            limit=limit,
        )

    def all_of_person(self, uid: int, limit: int) -> Sequence[EventRecord]:
        """Return the last `limit` events that name this user, newest first."""
        return EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE uid = :uid ORDER BY at DESC, id DESC LIMIT :limit",
            uid=uid,
            limit=limit,
        )

    def withdrew(self, uid: int, client_id: str, since: Instant) -> bool:
        """Return whether this user has revoked anything of this client since then."""
        row = self.db.row(
            "SELECT id FROM events WHERE uid = :uid AND at >= :since AND client_id = :client_id"
            " AND name IN ('consent.withdrawn', 'grant.revoked') LIMIT 1",
            uid=uid,
            since=since,
            client_id=client_id,
        )
        return row is not None

    def newest_of_client(self, client_id: str) -> Instant:
        """Return the time of the client's newest event: none of its tokens was issued later."""
        row = self.db.row(
            "SELECT max(at) FROM events WHERE client_id = :client_id", client_id=client_id
        )
        return Instant(0) if row is None or row[0] is None else Instant(row[0])

    def newest_of_person(self, uid: int) -> Instant:
        """Return the time of the user's newest event: no token of the user was issued later."""
        row = self.db.row("SELECT max(at) FROM events WHERE uid = :uid", uid=uid)
        return Instant(0) if row is None or row[0] is None else Instant(row[0])

    def find(self, id: str) -> EventRecord | None:
        """Return one event."""
        return EVENTS.find(
            self.db,
            "SELECT * FROM events WHERE id = :id",
            id=id,
        )


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decision records, found by the reference in the error response."""

    db: Connection

    def add(self, decision: Decision) -> None:
        """Insert the record; it is kept until it expires."""
        _DECISIONS.send(
            self.db,
            "INSERT INTO decisions (*) VALUES (*) ON CONFLICT (reference) DO NOTHING",
            decision,
        )

    def find(self, reference: str) -> Decision | None:
        """Return the record of a reference."""
        return _DECISIONS.find(
            self.db,
            "SELECT * FROM decisions WHERE reference = :reference",
            reference=reference,
        )

    def of_client(
        self, client_id: str, before: Instant, before_reference: str, limit: int, code: str = ""
    ) -> Sequence[Decision]:
        """Return at most `limit` records of one client, newest first, before a position.

        With a `code` only those of that error.
        """
        return _DECISIONS.all(
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

    def sweep_nobodys(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the records that name no client, beyond the newest `keep`.

        Anybody can cause such refusals: they are bounded separately, so that they do not displace
        the records that an app's developer may want to read.
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
    """Decisions waiting to be written: an error response does not wait for the disk.

    At most 10,000 wait; under a flood of refusals the oldest records are dropped, and responses are
    unaffected. Each client gets as many records as its developers can read; records beyond that
    name no client: only the operator finds them, by their reference.
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
        """Queue the record and return its reference, such as VK-7F3K-9QXM-2RTD.

        `client_id`, or else the refusal's `about`, is the client of the record; `proven` says that
        this client was authenticated as the sender of the request.
        """
        whose = client_id or refusal.about
        metrics.REFUSALS.add(_kept(refusal.check))
        # Records without a client are counted too: timing must not reveal whether a client exists.
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
        """Remove and return at most `most` queued records, oldest first."""
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def give_back(self, decisions: Sequence[Decision]) -> None:
        """Queue records again, the newest first as far as there is room."""
        room = _QUEUED - len(self.waiting)
        self.waiting.extendleft(tuple(reversed(decisions))[:room])


def _kept(text: str) -> str:
    # Short, and without characters that a database refuses: one such record would block all others.
    return text[:_LONGEST].encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _event(
    id: str,
    at: Instant,
    name: str,
    client_id: str | None,
    uid: int | None,
    grant_id: str | None,
    data: str,
    done_by: str,
) -> EventRecord:
    actor = read_back(done_by, uid=uid, client_id=client_id)
    return EventRecord(id, at, name, client_id, uid, grant_id, data, actor)


EVENTS = Record(_event, "events")
_DECISIONS = Record(Decision, "decisions", check=Column("checked"))
