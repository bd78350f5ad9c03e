"""The audit log: what happened, who did it and when, and its hash chain."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.event.accounts import (
    IdentityConfirmed,
    SecondFactorFailed,
    SessionRenewed,
    SessionStarted,
    SignInFailed,
)
from valetkey.authorization.model.event.chain import (
    BLOCK,
    Block,
    ChainedEvent,
    Retention,
    next_block,
)
from valetkey.authorization.model.event.event import DoneBy, Event, read_back, user_of, written
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Column, Record
from valetkey.kernel import metrics
from valetkey.kernel.keyring import CheckpointKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import ordered_id


class RequestOrigin(Struct, frozen=True):
    """The IP address of a request, and the names of its browser and system; each "" if unknown."""

    address: str = ""
    browser: str = ""
    system: str = ""

    def encode(self) -> str:
        """Encode for storage; no part contains the separator."""
        return f"{self.address}|{self.browser}|{self.system}"

    @property
    def shown_browser(self) -> str:
        """Browser and system as one text: "Firefox, Linux"."""
        return ", ".join(filter(None, (self.browser, self.system)))

    @staticmethod
    def decode(text: str) -> "RequestOrigin":
        """Decode what `encode` returned."""
        address, browser, system = text.split("|")
        return RequestOrigin(address, browser, system)


NOWHERE = RequestOrigin()
"""The origin of the server's own work, and of requests whose origin is not recorded."""

ORIGIN: ContextVar[RequestOrigin] = ContextVar("origin", default=NOWHERE)
"""The origin of the current request: `coming_from` sets it, and `Store.write` reads it."""


class EventOrigins(Struct, frozen=True):
    """IP addresses and browsers of events; erased without changing the audit log."""

    db: Connection

    def add(self, event_id: str, owner: int | None, origin: RequestOrigin, now: Instant) -> None:
        """Insert the origin of an event; `owner` is the uid of the user it belongs to, if known."""
        self.db.send(
            "INSERT INTO event_origins (event_id, owner, origin, noted_at)"
            " VALUES (:event_id, :owner, :origin, :now)",
            event_id=event_id,
            owner=owner,
            origin=origin.encode(),
            now=now,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` origins recorded before `before`."""
        return self.db.run(
            "DELETE FROM event_origins WHERE event_id IN (SELECT event_id FROM event_origins"
            " WHERE noted_at < :before ORDER BY noted_at LIMIT :limit)",
            before=before,
            limit=limit,
        )


_SIGN_INS = (SessionStarted, SessionRenewed, IdentityConfirmed)

_ALL = 1 << 53


class NoActor(ValueError):
    """An event without an actor: a programming error."""


class EventRecord(Struct, frozen=True):
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
    subject: str | None
    """The object it is about, such as `webhook:wh_1`; None if only a user or a client."""
    origin: RequestOrigin | None = None
    """The origin of its request: read where events are shown, None if it was not recorded."""


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


class Listener(Protocol):
    """Receives events in the transaction that writes them."""

    def accepts(self, name: str, client_id: str | None) -> bool:
        """Return whether an event of this name, about this client, is for it."""
        ...

    def handle(self, db: Connection, event: "RecordedEvent") -> None:
        """Act on such an event, by the same transaction."""
        ...


class RecordedEvent(Struct, frozen=True):
    """An event that was written; `subject` is whom it is about."""

    id: str
    name: str
    client_id: str | None
    subject: str
    at: Instant
    event: Event
    done_by: DoneBy


class Events(Struct, frozen=True):
    """The audit log: append-only, written in the transaction of the change."""

    db: Connection
    random: Callable[[int], bytes]
    done_by: DoneBy | None
    noted: list[Event] = field(default_factory=list[Event])
    listeners: tuple[Listener, ...] = ()
    origin: RequestOrigin = NOWHERE

    def add(self, event: Event, now: Instant) -> None:
        """Append an event by the transaction's actor, or by the event's usual actor.

        Raises NoActor if there is neither, which rolls the transaction back.
        """
        uid: int | None = getattr(event, "uid", None)
        client_id: str | None = getattr(event, "client_id", None)
        by = event.usual_actor if self.done_by is None else written(self.done_by, uid, client_id)
        if not by:
            raise NoActor(f"no actor is known: {event.name}")
        event_id = ordered_id("ev", now, self.random)
        self.db.send(
            "INSERT INTO events (id, at, name, client_id, uid, grant_id, data, done_by,"
            " subject) VALUES (:id, :at, :name, :client_id, :uid, :grant_id, :data, :done_by,"
            " :subject)",
            id=event_id,
            at=now,
            name=event.name,
            client_id=client_id,
            uid=uid,
            grant_id=getattr(event, "grant_id", None),
            data=msgspec.json.encode(event).decode(),
            done_by=by,
            subject=event.subject_id(),
        )
        if self.origin.address:
            EventOrigins(self.db).add(
                event_id, user_of(read_back(by, uid, client_id)) or uid, self.origin, now
            )
        for listener in self.listeners:
            if listener.accepts(event.name, client_id):
                subject, actor = subject_of(uid, client_id), read_back(by, uid, client_id)
                listener.handle(
                    self.db,
                    RecordedEvent(event_id, event.name, client_id, subject, now, event, actor),
                )
        self.noted.append(event)

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` events written before `before`, with their origins."""
        self.db.send(
            "DELETE FROM event_origins WHERE event_id IN"
            " (SELECT id FROM events WHERE at < :before ORDER BY at, id LIMIT :limit)",
            before=before,
            limit=limit,
        )
        return self.db.run(
            "DELETE FROM events WHERE id IN"
            " (SELECT id FROM events WHERE at < :before ORDER BY at, id LIMIT :limit)",
            before=before,
            limit=limit,
        )

    def sweep_name(self, name: str, before: Instant, limit: int) -> int:
        """Delete at most `limit` events of this name written before `before`, as `sweep` does."""
        self.db.send(
            "DELETE FROM event_origins WHERE event_id IN (SELECT id FROM events"
            " WHERE name = :name AND at < :before ORDER BY at, id LIMIT :limit)",
            name=name,
            before=before,
            limit=limit,
        )
        return self.db.run(
            "DELETE FROM events WHERE id IN (SELECT id FROM events"
            " WHERE name = :name AND at < :before ORDER BY at, id LIMIT :limit)",
            name=name,
            before=before,
            limit=limit,
        )

    def page(
        self, at: Instant, after: str, limit: int, *, shown: bool = False
    ) -> Sequence[EventRecord]:
        """Return at most `limit` events in time order after a position; with origins if `shown`."""
        return (SHOWN_EVENTS if shown else EVENTS).all(
            self.db,
            "SELECT * FROM events WHERE at > :at OR (at = :at AND id > :after) ORDER BY at, id"
            " LIMIT :limit",
            at=at,
            after=after,
            limit=limit,
        )

    def named(self, names: Iterable[str], since: Instant, limit: int) -> Sequence[EventRecord]:
        """Return at most `limit` events of each of these names, none before `since`."""
        sql = "SELECT * FROM events WHERE name = :name AND at >= :since ORDER BY at LIMIT :limit"
        return [
            event
            for name in names
            for event in EVENTS.all(self.db, sql, name=name, since=since, limit=limit)
        ]

    def newest(self, limit: int) -> Sequence[EventRecord]:
        """Return the last `limit` events in time order, with their origins."""
        events = SHOWN_EVENTS.all(
            self.db, "SELECT * FROM events ORDER BY at DESC, id DESC LIMIT :limit", limit=limit
        )
        return events[::-1]

    def of_person(
        self,
        uid: int,
        before: Instant,
        before_id: str,
        limit: int,
        names: Collection[str],
        *,
        among: int = _ALL,
    ) -> Sequence[EventRecord]:
        """Return at most `limit` events with these names, newest first, before a position.

        Reads at most `among` events.
        """
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM (SELECT id, at, name, client_id, uid, grant_id, data, done_by,"
            " subject FROM events WHERE uid = :uid AND (at < :before OR (at = :before"
            " AND id < :before_id)) ORDER BY at DESC, id DESC LIMIT :among) AS events"
            # `names` begins and ends with a space, and names have none.
            " WHERE replace(:names, ' ' || name || ' ', '') <> :names"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            uid=uid,
            before=before,
            before_id=before_id,
            names=f" {'  '.join(names)} ",
            among=among,
            limit=limit,
        )

    def all_of_person(self, uid: int, limit: int) -> Sequence[EventRecord]:
        """Return the last `limit` events that name this user, newest first."""
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE uid = :uid ORDER BY at DESC, id DESC LIMIT :limit",
            uid=uid,
            limit=limit,
        )

    def has_revoked(self, uid: int, client_id: str, since: Instant) -> bool:
        """Return whether this user has revoked anything of this client since then."""
        row = self.db.row(
            "SELECT id FROM events WHERE uid = :uid AND at >= :since AND client_id = :client_id"
            " AND name IN ('consent.withdrawn', 'grant.revoked') LIMIT 1",
            uid=uid,
            since=since,
            client_id=client_id,
        )
        return row is not None

    def newest_at(self) -> Instant:
        """Return the time of the newest event: no token was issued later."""
        row = self.db.row("SELECT max(at) FROM events")
        return Instant(0) if row is None or row[0] is None else Instant(row[0])

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
        """Return the event with this id; None if it was never stored or has been deleted."""
        return EVENTS.find(
            self.db,
            "SELECT * FROM events WHERE id = :id",
            id=id,
        )


def subject_of(uid: int | None, client_id: str | None) -> str:
    """Return whom an event is about: messages about one subject keep their order."""
    if uid is not None:
        return f"user {uid}"
    return "" if client_id is None else f"client {client_id}"


def _event(
    id: str,
    at: Instant,
    name: str,
    client_id: str | None,
    uid: int | None,
    grant_id: str | None,
    data: str,
    done_by: str,
    subject: str | None,
    origin: RequestOrigin | None,
) -> EventRecord:
    actor = read_back(done_by, uid=uid, client_id=client_id)
    return EventRecord(id, at, name, client_id, uid, grant_id, data, actor, subject, origin)


EVENTS = Record(_event, "events", origin=Column(sql="NULL"))
"""Events without their origins."""

SHOWN_EVENTS = Record(
    _event,
    "events",
    origin=Column(
        sql="(SELECT origin FROM event_origins WHERE event_id = events.id)",
        read=RequestOrigin.decode,
    ),
)
"""Events with their origins."""


class NextBlockInputs(Struct, frozen=True):
    """The inputs of the next block besides the hash of the newest."""

    at: Instant
    keep: str


class AuditChain(Struct, frozen=True):
    """The blocks, and the events that have none yet."""

    db: Connection

    def waiting(self) -> int:
        """Return how many events have no block; counts no further than one block holds."""
        row = self.db.row(
            "SELECT count(*) FROM (SELECT id FROM events WHERE block IS NULL"
            " ORDER BY at, id LIMIT :limit) AS counted",
            limit=BLOCK,
        )
        return 0 if row is None else int(row[0])

    def oldest_waiting(self) -> Instant | None:
        """Return the time of the oldest event without a block."""
        row = self.db.row("SELECT at FROM events WHERE block IS NULL ORDER BY at, id LIMIT 1")
        return None if row is None else Instant(row[0])

    def head(self) -> Block | None:
        """Return the newest block."""
        return _BLOCKS.find(self.db, "SELECT * FROM audit_blocks ORDER BY number DESC LIMIT 1")

    def newest(self) -> NextBlockInputs | None:
        """Return the time and retention of the newest block."""
        return _NEWEST.find(self.db, "SELECT * FROM audit_blocks ORDER BY number DESC LIMIT 1")

    def append(self, keep: Retention, now: Instant, key: CheckpointKey) -> Block:
        """Append a block of the oldest events that have none; it may be empty.

        Call `hold` first and judge again: of two processes only one may append.
        """
        head = self.head()
        number = 1 if head is None else head.number + 1
        events = _EVENTS.all(
            self.db,
            "UPDATE events SET block = :number WHERE block IS NULL AND id IN"
            " (SELECT id FROM events WHERE block IS NULL ORDER BY at, id LIMIT :limit)"
            " RETURNING *",
            number=number,
            limit=BLOCK,
        )
        events.sort(key=lambda event: (event.at, event.id))
        block = next_block(head, events, keep, now, key)
        # The primary key also rejects a second block of this number.
        _BLOCKS.send(self.db, "INSERT INTO audit_blocks (*) VALUES (*)", block)
        return block

    def hold(self) -> None:
        """Exclude other processes from appending until the transaction ends."""
        self.db.exclude(Lock.AUDIT_CHAIN)

    def page(self, after: int, limit: int) -> Sequence[Block]:
        """Return at most `limit` blocks behind this number, in order."""
        return _BLOCKS.all(
            self.db,
            "SELECT * FROM audit_blocks WHERE number > :after ORDER BY number LIMIT :limit",
            after=after,
            limit=limit,
        )

    def find(self, number: int) -> Block | None:
        """Return one block."""
        return _BLOCKS.find(
            self.db, "SELECT * FROM audit_blocks WHERE number = :number", number=number
        )

    def newest_by_retention(self, limit: int) -> Sequence[int]:
        """Return the number of the newest block with each retention; reads every block."""
        rows = self.db.rows(
            "SELECT max(number) FROM audit_blocks GROUP BY keep ORDER BY 1 DESC LIMIT :limit",
            limit=limit,
        )
        return [row[0] for row in rows]

    def events_of(self, block: Block) -> Sequence[ChainedEvent]:
        """Return the stored events that name this block and lie in its time."""
        return _EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE at >= :first AND at <= :last AND block = :number",
            first=block.first_at,
            last=block.last_at,
            number=block.number,
        )

    def event(self, id: str) -> ChainedEvent | None:
        """Return an event by its id."""
        return _EVENTS.find(self.db, "SELECT * FROM events WHERE id = :id", id=id)

    def unlisted_events(
        self, at: Instant, after: str, limit: int
    ) -> tuple[Sequence[tuple[str, str]], tuple[Instant, str] | None]:
        """Look at `limit` events after a position for those that no block can list.

        Returns id and name of those that name a block that does not exist or whose time they are
        not in, and the next position; None at the end.
        """
        events = self.db.rows(
            "SELECT counted.id, counted.name FROM (SELECT id, at, name, block FROM events"
            " WHERE at > :at OR (at = :at AND id > :after) ORDER BY at, id LIMIT :limit) AS counted"
            " LEFT JOIN audit_blocks ON audit_blocks.number = counted.block"
            " WHERE counted.block IS NOT NULL AND (audit_blocks.number IS NULL"
            " OR counted.at < audit_blocks.first_at OR counted.at > audit_blocks.last_at)",
            at=at,
            after=after,
            limit=limit,
        )
        rows = self.db.rows(
            "SELECT at, id FROM events WHERE at > :at OR (at = :at AND id > :after)"
            " ORDER BY at, id LIMIT 1 OFFSET :skipped",
            at=at,
            after=after,
            skipped=limit - 1,
        )
        return [(id_, name) for id_, name in events], (
            Instant(rows[0][0]),
            rows[0][1],
        ) if rows else None

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` blocks from the start whose events are all from before `before`.

        The last of these stays: it shows that the blocks before it had expired.
        """
        return self.db.run(
            "DELETE FROM audit_blocks WHERE number IN"
            " (SELECT number FROM audit_blocks ORDER BY number LIMIT :limit)"
            " AND number < (SELECT max(number) FROM audit_blocks)"
            " AND number < (SELECT coalesce(min(counted.number), :limitless) - 1"
            " FROM (SELECT number, last_at FROM audit_blocks ORDER BY number LIMIT :more)"
            " AS counted WHERE counted.last_at >= :before)",
            before=before,
            limit=limit,
            more=limit + 2,
            limitless=1 << 62,
        )


_EVENTS = Record(ChainedEvent, "events")
_BLOCKS = Record(Block, "audit_blocks")
_NEWEST = Record(NextBlockInputs, "audit_blocks")


class AuditExports(Struct, frozen=True):
    """Store the progress of each export: its last block, and the process that delivers."""

    db: Connection

    def is_due(self, destination: str, holder: str, now: Instant) -> bool:
        """Return whether a block waits, and no other process delivers."""
        row = self.db.row(
            "SELECT 1 FROM audit_blocks WHERE number > coalesce((SELECT block FROM audit_exports"
            " WHERE destination = :destination), 0) AND NOT EXISTS (SELECT 1 FROM audit_exports"
            " WHERE destination = :destination AND holder <> :holder AND held_until > :now)"
            " LIMIT 1",
            destination=destination,
            holder=holder,
            now=now,
        )
        return row is not None

    def claim(self, destination: str, holder: str, now: Instant, until: Instant) -> int | None:
        """Hold the destination; return the last block that it has. None while another holds it."""
        row = self.db.row(
            "INSERT INTO audit_exports (destination, block, holder, held_until)"
            " VALUES (:destination, 0, :holder, :until) ON CONFLICT (destination)"
            " DO UPDATE SET holder = :holder, held_until = :until"
            " WHERE audit_exports.holder = :holder OR audit_exports.held_until <= :now"
            " RETURNING block",
            destination=destination,
            holder=holder,
            now=now,
            until=until,
        )
        return None if row is None else int(row[0])

    def advance(self, destination: str, holder: str, block: int) -> bool:
        """Note that the destination has this block. False if another process took over."""
        moved = self.db.run(
            "UPDATE audit_exports SET block = :block"
            " WHERE destination = :destination AND holder = :holder AND block < :block",
            destination=destination,
            holder=holder,
            block=block,
        )
        return moved == 1

    def waiting_since(self) -> Mapping[str, Instant | None]:
        """Return for each destination the time of the oldest block that it does not have.

        None if it has all.
        """
        rows = self.db.rows(
            "SELECT destination, (SELECT at FROM audit_blocks WHERE number > audit_exports.block"
            " ORDER BY number LIMIT 1) FROM audit_exports ORDER BY destination"
        )
        return {name: None if at is None else Instant(at) for name, at in rows}
