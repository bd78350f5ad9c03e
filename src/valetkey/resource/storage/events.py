"""Events of the audit log, stored revocations, and background work."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct

from valetkey.database.decisions import Decision, DecisionQueue, Decisions
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine, Overloaded
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, Lifetime, days
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime
from valetkey.resource.storage.objects import StoredValues, Sweep
from valetkey.sdk.caller import Caller
from valetkey.sdk.upstream.revocations import Page, Revocation


class Event(Struct, frozen=True):
    """A change of an object. `name` is noun.past_participle.

    `version` is the one that the change made. `uid` is the user for whom the client acted, None if
    it acted on its own behalf.
    """

    name: ClassVar[str]
    object: str
    object_id: str
    version: int
    uid: str | None
    client_id: str
    token_id: str
    grant_id: str | None


class ObjectCreated(Event, frozen=True):
    """An object was created; `object` is its kind."""

    name = "object.created"


class ObjectReplaced(Event, frozen=True):
    """An object was replaced (PUT)."""

    name = "object.replaced"


class ObjectChanged(Event, frozen=True):
    """Some of an object was changed (PATCH)."""

    name = "object.changed"


class ObjectDeleted(Event, frozen=True):
    """An object was deleted; its id is never reused."""

    name = "object.deleted"


EVENTS: tuple[type[Event], ...] = (ObjectCreated, ObjectReplaced, ObjectChanged, ObjectDeleted)


def done(event: type[Event], object: str, id: str, version: int, caller: Caller) -> Event:
    """Return the event of `caller` applying `verb`."""
    return event(
        object, id, version, caller.user, caller.client_id, caller.token_id, caller.grant_id
    )


ListPosition = tuple[Instant, str, int]
"""An event's position in time order: its instant, its object, its version."""


class EventRecord(Struct, frozen=True):
    """A stored event, identified by its object and version."""

    at: Instant
    object_id: str
    version: int
    name: str
    object: str
    uid: str | None
    client_id: str
    token_id: str
    grant_id: str | None

    @property
    def done_by(self) -> str:
        """Return the user and client, or the client that acted on its own behalf."""
        return f"client {self.client_id}" if self.uid is None else f"user {self.uid}"

    @property
    def position(self) -> ListPosition:
        """Return its position."""
        return self.at, self.object_id, self.version


FIRST: ListPosition = (Instant(-1), "", 0)
"""Sorts before all events."""


class Events(Struct, frozen=True):
    """The audit log: append-only, written in the transaction of the change."""

    db: Connection

    def add(self, event: Event, now: Instant) -> None:
        """Append the event."""
        _RECORDS.send(
            self.db,
            "INSERT INTO events (*) VALUES (*)",
            EventRecord(
                now,
                event.object_id,
                event.version,
                event.name,
                event.object,
                event.uid,
                event.client_id,
                event.token_id,
                event.grant_id,
            ),
        )

    def page(self, after: ListPosition, limit: int, object: str = "") -> Sequence[EventRecord]:
        """Return at most `limit` events after a position in time order, optionally of one kind."""
        return _RECORDS.all(
            self.db,
            "SELECT * FROM events WHERE (at, object_id, version) > (:at, :object_id, :version)"
            " AND (:every = 1 OR object = :object) ORDER BY at, object_id, version LIMIT :limit",
            at=after[0],
            object_id=after[1],
            version=after[2],
            every=int(not object),
            object=object,
            limit=limit,
        )

    def newest(self, limit: int, object: str = "") -> Sequence[EventRecord]:
        """Return the last `limit` events in time order."""
        records = _RECORDS.all(
            self.db,
            "SELECT * FROM events WHERE (:every = 1 OR object = :object) ORDER BY at DESC,"
            " object_id DESC, version DESC LIMIT :limit",
            every=int(not object),
            object=object,
            limit=limit,
        )
        return records[::-1]

    def find(self, object_id: str, version: int) -> EventRecord | None:
        """Return the event that made this version; scans all events."""
        return _RECORDS.find(
            self.db,
            "SELECT * FROM events WHERE object_id = :object_id AND version = :version",
            object_id=object_id,
            version=version,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` events written before `before`."""
        return self.db.run(
            "DELETE FROM events WHERE (at, object_id, version) IN"
            " (SELECT at, object_id, version FROM events WHERE at < :before"
            " ORDER BY at, object_id, version LIMIT :limit)",
            before=before,
            limit=limit,
        )


_RECORDS = Record(EventRecord, "events")


_CURSOR = "revocations_cursor"
_REVOCATIONS = Record(Revocation, "revocations")


class Revocations(Struct, frozen=True):
    """The revocations that still matter, and the feed position to continue from."""

    db: Connection

    def read(self, now: Instant) -> Page:
        """Return all of them, and the position."""
        revocations = _REVOCATIONS.all(
            self.db, "SELECT * FROM revocations WHERE expires_at > :now", now=now
        )
        return Page(StoredValues(self.db).find(_CURSOR), tuple(revocations))

    def save(self, page: Page) -> None:
        """Store one page of the feed; entries may repeat."""
        for entry in page.revocations:
            _REVOCATIONS.send(
                self.db,
                "INSERT INTO revocations (*) VALUES (*)"
                " ON CONFLICT (kind, id) DO UPDATE SET"
                " revoked_at = excluded.revoked_at, expires_at = excluded.expires_at"
                " WHERE revocations.revoked_at < excluded.revoked_at",
                entry,
            )
        StoredValues(self.db).set(_CURSOR, page.cursor)


T = TypeVar("T")

UNAVAILABLE = (DatabaseUnavailable, Overloaded)
"""Exceptions of a database that is temporarily unavailable."""

_EVERY = 1.0
_SWEEP_EVERY = 15  # rounds
_BATCH = 500
_YEAR = days(365)


class Maintenance(Struct, frozen=True):
    """Run in the background while the server runs."""

    engine: Engine
    runtime: Runtime
    decisions: DecisionQueue
    keep_events: Lifetime = _YEAR

    async def run(self) -> None:
        """Write decision records every second and delete expired rows, until cancelled."""
        rounds = 0
        while True:
            await rest(_EVERY)
            rounds += 1
            with contextlib.suppress(*UNAVAILABLE):
                await self.write_decisions()
                if rounds % _SWEEP_EVERY == 0:
                    await self.sweep()

    async def write_decisions(self) -> None:
        """Write queued records. Raises what `Engine.write` raises; that batch is then lost."""
        while taken := self.decisions.drain(_BATCH):
            await self.engine.write(_adding(taken))

    async def sweep(self) -> None:
        """Delete everything that expired, in batches."""
        now = self.runtime.now()
        forgotten = Instant(now - self.keep_events)
        gone = _BATCH
        while gone >= _BATCH:
            gone = await self.engine.write(lambda db: Sweep(db).everything(now, _BATCH))
        gone = _BATCH
        while gone >= _BATCH:
            gone = await self.engine.write(lambda db: Events(db).sweep(forgotten, _BATCH))


def tolerate_outage(
    engine: Engine, work: Callable[[Connection, T], None]
) -> Callable[[T], Awaitable[bool]]:
    """Return a function that runs `work` and returns False while the database is down."""

    async def write_if_available(value: T) -> bool:
        try:
            await engine.write(lambda db: work(db, value))
        except UNAVAILABLE:
            return False
        return True

    return write_if_available


def _adding(taken: Sequence[Decision]) -> Callable[[Connection], None]:
    def add_decisions(db: Connection) -> None:
        for decision in taken:
            Decisions(db).add(decision)

    return add_decisions
