"""/admin/events: search, filter and export the audit log."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin import events
from valetkey.authorization.actions.admin.events import FORMATS, MOST
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.user import LARGEST_UID, Uid
from valetkey.authorization.model.event.chain import EVENTS as KINDS
from valetkey.authorization.operations.events import EXPORT_EVENTS
from valetkey.authorization.operations.operation import Services, call_of, cursor, place_in
from valetkey.authorization.operations.server_records import CopyWanted
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act, Download, Outcome, Page, Show
from valetkey.authorization.storage.administration.client_search import Cursor
from valetkey.authorization.storage.administration.event_search import EventFilter
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable
from valetkey.web.form import Form

EVENTS = "/admin/events"
EXPORT = "/admin/events/export"


class EventRow(Struct, frozen=True):
    """One event; `person` and `app` are its subjects, "" for none."""

    id: str
    name: str
    when: When
    person: str
    person_url: str
    app: str
    app_url: str
    done_by: str
    #: The other members of the event: name and value.
    said: tuple[tuple[str, str], ...] = ()


class EventQuery(Struct, frozen=True):
    """The filters of the form, as entered; "" for all."""

    person: str = ""
    client: str = ""
    name: str = ""
    by: str = ""
    since: str = ""
    until: str = ""

    @property
    def is_narrow(self) -> bool:
        """Return whether any filter is set."""
        return any((self.person, self.client, self.name, self.by, self.since, self.until))


class EventsPage(Struct, frozen=True):
    """A page of events, newest first; the form uses GET."""

    template: ClassVar[str] = "admin/events.html"

    action: str
    query: EventQuery
    #: Every name there is.
    names: tuple[str, ...]
    listed: tuple[EventRow, ...]
    export_url: str
    more: str = ""
    first: str = ""
    #: The fault of each invalid field of the form, by its name.
    faults: tuple[tuple[str, str], ...] = ()


class ExportPage(Struct, frozen=True):
    """The confirmation page of an export."""

    template: ClassVar[str] = "admin/export.html"

    action: str
    back: str
    query: EventQuery
    most: int


SHOWN = 25
"""Maximum number of events on a page."""

_NAMES = tuple(sorted(kind.name for kind in KINDS))
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_UID = re.compile(r"(?:uid:)?([1-9][0-9]{0,15})", re.ASCII)
_LONGEST = 200
_LAST_SECOND = 86_399
_APART = frozenset({"uid", "client_id", "grant_id"})
_NOBODY = translatable("No user has this uid, username or email address.")
_SEVERAL = translatable("This matches several users. Enter uid:1002 or name:1002.")
_NO_DAY = translatable("Enter the date as 2026-11-21.")
_NOWHERE = EventFilter(uid=-2)

Faults = tuple[tuple[str, str], ...]


class Events(Struct, frozen=True):
    """Search the audit log, and export it."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the log, and the confirmation before an export."""
        return (
            Page(EVENTS, administrator(), self.show, title=translatable("Events"), nav=SERVER),
            Page(
                EXPORT,
                administrator(recent=True),
                self.ask,
                Act(self.export),
                title=translatable("Export events"),
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the audit log."""
        form, actor = request.query, request.actor
        query, before = _query(form), place_in(form.get("after"))

        def find_events(tx: Transaction) -> tuple[Sequence[EventRecord], Mapping[int, str], Faults]:
            wanted, faults = _filter(tx, query)
            found = events.page(tx, actor, wanted, before, SHOWN + 1)
            users = {each.uid: tx.users.find(Uid(each.uid)) for each in found if each.uid}
            return found, {u: user.username for u, user in users.items() if user}, faults

        found, names, faults = await self.services.store.scan(find_events)
        said = {name: value for name, value in asdict(query).items() if value}
        last = found[SHOWN - 1] if len(found) > SHOWN else None
        after = cursor(Cursor(last.at, last.id)) if last else ""
        page = EventsPage(
            action=EVENTS,
            query=query,
            names=_NAMES,
            listed=tuple(_row(each, names, request.now) for each in found[:SHOWN]),
            export_url=with_query(EXPORT, said) if found else "",
            more=with_query(EVENTS, {**said, "after": after}) if after else "",
            first=with_query(EVENTS, said) if "after" in form else "",
            faults=faults,
        )
        return Show(page)

    async def ask(self, request: AdminRequest) -> Outcome:
        """Show the confirmation page of an export."""
        query = _query(request.query)
        said = {name: value for name, value in asdict(query).items() if value}
        page = ExportPage(EXPORT, with_query(EVENTS, said), query, MOST)
        return Show(page)

    async def export(self, request: AdminRequest) -> Outcome:
        """Stream the export while it is read."""
        form = request.form
        services, query, said = self.services, _query(form), form.get("format")
        if said not in FORMATS:
            raise page_not_found()
        wanted, faults = await services.store.read(lambda tx: _filter(tx, query))
        if faults:
            raise page_not_found()
        kind: Literal["csv", "ndjson"] = "csv" if said == "csv" else "ndjson"
        body = CopyWanted(kind, **asdict(wanted))
        call = call_of(services, EXPORT_EVENTS, request.actor, request.now, body=body)
        copy = (await call.operation.run(call)).download
        pieces = None if copy is None else copy.stream
        return Download(f"events.{kind}", FORMATS[kind], pieces=pieces)


def _query(form: Form) -> EventQuery:
    said = {
        name: (form.get(name) or "").strip()[:_LONGEST]
        for name in ("person", "client", "name", "by", "since", "until")
    }
    if said["name"] not in _NAMES:
        said["name"] = ""
    return EventQuery(**said)


def _filter(tx: Transaction, query: EventQuery) -> tuple[EventFilter, Faults]:
    faults: list[tuple[str, str]] = []
    uid = None
    if query.person:
        meant = _uids(tx, query.person)
        uid = next(iter(meant), None)
        if len(meant) != 1:
            faults.append(("person", _SEVERAL if meant else _NOBODY))
    days = {"since": _day(query.since), "until": _day(query.until)}
    for name, day in days.items():
        if day is None and getattr(query, name):
            faults.append((name, _NO_DAY))
    if faults:
        return _NOWHERE, tuple(faults)
    since, until = days["since"], days["until"]
    return (
        EventFilter(
            uid=uid,
            client_id=query.client,
            name=query.name,
            done_by=query.by,
            since=since or Instant(0),
            until=Instant(1 << 53) if until is None else Instant(until + _LAST_SECOND),
        ),
        (),
    )


def _uids(tx: Transaction, text: str) -> set[int]:
    """Return the uids of users who match, including removed ones, whose events remain."""
    meant: set[int] = {user.uid for user in resolve_users(tx, text)}
    number = _UID.fullmatch(text)
    if number and int(number[1]) <= LARGEST_UID and tx.users.find(Uid(int(number[1]))):
        meant.add(int(number[1]))
    return meant


def _day(text: str) -> Instant | None:
    if _DAY.fullmatch(text) is None:
        return None
    try:
        return Instant(max(0, int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())))
    except ValueError:
        return None


def _row(event: EventRecord, names: Mapping[int, str], now: Instant) -> EventRow:
    data = msgspec.json.decode(event.data, type=dict[str, object])
    uid, client_id = event.uid, event.client_id or ""
    return EventRow(
        id=event.id,
        name=event.name,
        when=When(event.at, now),
        person="" if not uid else names.get(uid, str(uid)),
        person_url="" if not uid else user_address(Uid(uid)),
        app=client_id,
        app_url=client_address(client_id) if client_id else "",
        done_by=event.done_by,
        said=tuple(
            (word, _text(value))
            for word, value in data.items()
            if word not in _APART and value not in (None, "", [], ())
        ),
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
