"""The audit logs of both servers, merged in the order of time."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from valetkey.authorization.storage.records import NOWHERE, EventRecord, Events
from valetkey.authorization.storage.search import END, EventFilter, EventSearch
from valetkey.cli.register.store import SCHEMAS, is_begun, open_database
from valetkey.config.agreement import servers
from valetkey.config.settings import Settings
from valetkey.database.engine import Connection
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.storage.events import EventRecord as ObjectRecord
from valetkey.resource.storage.events import Events as ObjectEvents

T = TypeVar("T")

_OBJECT_EVENT = re.compile(r"([\w-]{1,200})\.([1-9][0-9]{0,17})", re.ASCII)


class Logged(Struct, frozen=True):
    """One event of either server; `id` is unique, `data` are its members.

    IP address and browser are those of its request, "" if they are not known.
    """

    id: str
    server: str
    at: Instant
    name: str
    done_by: str
    data: Mapping[str, object]
    ip_address: str = ""
    browser: str = ""


class _Log(Protocol):
    """One server's log. Events of the other server are located by their time."""

    @property
    def server(self) -> str: ...

    def newest(self, db: Connection, limit: int) -> Sequence[Logged]: ...

    def find(self, db: Connection, id: str) -> Logged | None: ...

    def since(self, db: Connection, at: Instant, limit: int) -> Sequence[Logged]: ...

    def behind(self, db: Connection, event: Logged, limit: int) -> Sequence[Logged]: ...


class _Authorization(Struct, frozen=True):
    server: str = "authorization"

    def newest(self, db: Connection, limit: int) -> Sequence[Logged]:
        return [_logged(record) for record in _events(db).newest(limit)]

    def find(self, db: Connection, id: str) -> Logged | None:
        record = _events(db).find(id)
        return None if record is None else _logged(record)

    def since(self, db: Connection, at: Instant, limit: int) -> Sequence[Logged]:
        return [_logged(record) for record in _events(db).page(at, "", limit, shown=True)]

    def behind(self, db: Connection, event: Logged, limit: int) -> Sequence[Logged]:
        records = _events(db).page(event.at, event.id, limit, shown=True)
        return [_logged(record) for record in records]


class _Objects(Struct, frozen=True):
    object: str
    server: str = "resource"

    def newest(self, db: Connection, limit: int) -> Sequence[Logged]:
        return [_object_logged(record) for record in ObjectEvents(db).newest(limit, self.object)]

    def find(self, db: Connection, id: str) -> Logged | None:
        parts = _OBJECT_EVENT.fullmatch(id)
        record = parts and ObjectEvents(db).find(parts[1], int(parts[2]))
        return _object_logged(record) if record else None

    def since(self, db: Connection, at: Instant, limit: int) -> Sequence[Logged]:
        records = ObjectEvents(db).page((at, "", 0), limit, self.object)
        return [_object_logged(record) for record in records]

    def behind(self, db: Connection, event: Logged, limit: int) -> Sequence[Logged]:
        object_id, _, version = event.id.rpartition(".")
        position = (event.at, object_id, int(version))
        return [
            _object_logged(record) for record in ObjectEvents(db).page(position, limit, self.object)
        ]


async def read_matching(
    settings: Settings, after: str | Instant | None, limit: int, criteria: EventFilter
) -> Sequence[Logged]:
    """Return at most `limit` events of the authorization server that match, in the order of time.

    They are the newest that follow the event with the id `after`, or that instant. Raises as
    `read_logs`.
    """
    log = _Authorization()
    position: tuple[Instant, str] = (Instant(-1), "")
    if isinstance(after, str):
        event = await _event(settings, (log,), after)
        position = (event.at, event.id)
    elif after is not None:
        position = (after, "")
    criteria = replace(criteria, since=position[0])
    records = await _read(settings, log, lambda db, _: EventSearch(db).page(criteria, END, limit))
    return [_logged(record) for record in reversed(records) if (record.at, record.id) > position]


async def read_logs(
    settings: Settings, after: str | Instant | None, limit: int, object: str = ""
) -> Sequence[Logged]:
    """Return at most `limit` events of both servers in the order of time.

    They follow the event with the id `after`, or begin at that instant; without `after` they are
    the newest. With `object`, only events of objects of that kind. Raises OperatorError for an
    unknown event, and DatabaseUnavailable.
    """
    logs: tuple[_Log, ...] = (_Authorization(), _Objects(object))
    if object:
        logs = logs[1:]
    if after is None:
        pages = [await _read(settings, log, lambda db, log: log.newest(db, limit)) for log in logs]
        return _in_order(pages)[-limit:]
    if isinstance(after, str):
        work = _behind(await _event(settings, logs, after), limit)
    else:
        work = _since(after, limit)
    pages = [await _read(settings, log, work) for log in logs]
    return _in_order(pages)[:limit]


_Work = Callable[[Connection, _Log], Sequence[Logged]]


def _since(at: Instant, limit: int) -> _Work:
    return lambda db, log: log.since(db, at, limit)


def _behind(event: Logged, limit: int) -> _Work:
    def read_after(db: Connection, log: _Log) -> Sequence[Logged]:
        if log.server == event.server:
            return log.behind(db, event, limit)
        # Within a second, the authorization server's events come first.
        later = log.server < event.server
        return log.since(db, Instant(event.at + later), limit)

    return read_after


async def _event(settings: Settings, logs: Sequence[_Log], id: str) -> Logged:
    for log in logs:
        for event in await _read(settings, log, lambda db, log: [log.find(db, id)]):
            if event is not None:
                return event
    raise OperatorError(
        f"there is no event {id!r} here: it was never written, or is too old by now; a day is "
        "written as 2026-11-30"
    )


async def _read(
    settings: Settings, log: _Log, work: Callable[[Connection, _Log], Sequence[T]]
) -> Sequence[T]:
    """Return the result of `work` on a database; nothing if there is no database yet."""
    server = dict(servers(settings))[log.server]
    if not is_begun(settings, server):
        return ()
    engine = open_database(settings, server)
    try:
        await migrate(engine, SCHEMAS[log.server])
        return await engine.scan(lambda db: work(db, log))
    finally:
        await engine.close()


def _in_order(pages: Sequence[Sequence[Logged]]) -> Sequence[Logged]:
    # Sorting is stable: within a server's second the order of its log stays.
    return sorted((event for page in pages for event in page), key=lambda e: (e.at, e.server))


def _events(db: Connection) -> Events:
    return Events(db, SYSTEM.random, None)


def _logged(event: EventRecord) -> Logged:
    data = msgspec.json.decode(event.data, type=dict[str, object])
    origin = event.origin or NOWHERE
    by, browser = event.done_by, origin.shown_browser
    return Logged(
        event.id, "authorization", event.at, event.name, by, data, origin.address, browser
    )


def _object_logged(event: ObjectRecord) -> Logged:
    uid = event.uid
    data = {
        "object": event.object,
        "object_id": event.object_id,
        "version": event.version,
        # An integer, as in the authorization server's events.
        "uid": int(uid) if uid is not None and uid.isdecimal() else uid,
        "client_id": event.client_id,
        "token_id": event.token_id,
        "grant_id": event.grant_id,
    }
    event_id = f"{event.object_id}.{event.version}"
    return Logged(event_id, "resource", event.at, event.name, event.done_by, data)
