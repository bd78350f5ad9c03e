"""/admin/events: search, filter and export the audit log."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin import audit
from valetkey.authorization.actions.admin.audit import FORMATS, MOST_EVENTS
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.actions.inspection.refusals import reads_like_reference, refusal_of
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.event.event import ANONYMOUS, SYSTEM, UNKNOWN, Event, by_user
from valetkey.authorization.model.user import LARGEST_UID, Uid
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
from valetkey.authorization.site.admin.events.lines import (
    EventRow,
    Names,
    names_in,
    rows_of,
)
from valetkey.authorization.site.admin.saved_filters import (
    NOTHING_SAVED,
    SavedPart,
    saved_part,
)
from valetkey.authorization.site.page import (
    ONE_PAGE,
    Act,
    Download,
    Outcome,
    Page,
    Paging,
    Show,
    at_most,
    pages_beside,
)
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, EventFilter, TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

EVENTS = ADDRESSES["admin_events"]
EXPORT = "/admin/events/export"
LIVE = "/admin/events/live"


class EventQuery(Struct, frozen=True):
    """The filters of the form, as entered; "" for all."""

    person: str = ""
    client: str = ""
    name: str = ""
    by: str = ""
    outcome: str = ""
    subject: str = ""
    since: str = ""
    until: str = ""

    @property
    def is_narrow(self) -> bool:
        """Return whether any filter is set."""
        return self != EventQuery()


class RefusalFacts(Struct, frozen=True):
    """The record of a refused request. `expected` and `received` may contain text from anyone."""

    reference: str
    when: When
    endpoint: str
    code: str
    check: str
    description: str
    expected: str
    received: str
    client_id: str
    client_url: str
    request_id: str


class EventsPage(Struct, frozen=True):
    """A page of events, newest first; the form uses GET."""

    template: ClassVar[str] = "admin/events/events.html"
    scripts: ClassVar[tuple[str, ...]] = ("live.js",)

    action: str
    query: EventQuery
    #: Every name of an event, for a choice.
    names: tuple[str, ...]
    listed: tuple[EventRow, ...]
    export_url: str
    #: What a script asks for new events; "" on later pages.
    live_url: str = ""
    paging: Paging = ONE_PAGE
    saved: SavedPart = NOTHING_SAVED
    #: The record of the refusal whose reference was entered.
    refusal: RefusalFacts | None = None
    #: The fault of each invalid field of the form, by its name.
    faults: tuple[tuple[str, str], ...] = ()


class ExportPage(Struct, frozen=True):
    """The confirmation page of an export."""

    template: ClassVar[str] = "admin/events/export.html"

    action: str
    back: str
    query: EventQuery
    most: int


SHOWN = 25
"""Maximum number of events on a page."""

MOST_COUNTED = 1_000
"""Events that are counted for the total."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_UID = re.compile(r"(?:uid:)?([1-9][0-9]{0,15})", re.ASCII)
_LONGEST = 200
_LAST_SECOND = 86_399
_UNKNOWN_USER = translatable("No user has this user ID, username or email address.")
_SEVERAL = translatable("This matches several users. Enter uid:1002 or name:1002.")
_NO_EVENT = translatable("No event has this name. Choose one from the list.")
_NO_SUBJECT = translatable("Enter a kind of object, or one of them: group or group:printers.")
_NO_REFUSAL = translatable(
    "There is no record of this reference. Records are kept for seven days; those of the resource "
    "server are found by the command valetkey explain."
)
_NO_DAY = translatable("Enter the date as 2026-11-21.")
_OUTCOMES: Mapping[str, Literal["", "success", "failure"]] = {
    "": "",
    "success": "success",
    "failure": "failure",
}
_NOWHERE = EventFilter(uid=-2)

Faults = tuple[tuple[str, str], ...]


class _Found(Struct, frozen=True):
    listed: Sequence[EventRecord]
    count: int
    names: Names
    faults: Faults
    saved: SavedPart
    refusal: Decision | None = None


class EventPages(Struct, frozen=True):
    """Search the audit log, and export it."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the log, and the confirmation before an export."""
        return (
            Page(
                EVENTS,
                administrator(),
                self.show,
                title=translatable("Events"),
                nav=SERVER,
                docs="how-to/operate/audit-log.html",
            ),
            Page(LIVE, administrator(polled=True), self.show, title=translatable("Events")),
            Page(
                EXPORT,
                administrator(recent=True),
                self.show_confirmation,
                Act(self.export),
                title=translatable("Export events"),
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the audit log."""
        form, actor = request.query, request.actor
        query, before = _query(form), place_in(form.get("after"))

        parameters = {name: value for name, value in asdict(query).items() if value}

        def find_events(tx: Transaction) -> _Found:
            if reads_like_reference(query.person):
                return _refused(tx, request, query.person)
            criteria, faults = _filter(tx, query, self.services.kinds)
            events = audit.page(tx, actor, criteria, before, SHOWN + 1)
            count = len(audit.page(tx, actor, criteria, END, MOST_COUNTED + 1))
            saved = saved_part(tx, request, "events", {} if faults else parameters)
            return _Found(events, count, names_in(tx, events), faults, saved)

        it = await self.services.store.scan(find_events)
        last = it.listed[SHOWN - 1] if len(it.listed) > SHOWN else None
        after = cursor(TimeCursor(last.at, last.id)) if last else ""
        page = EventsPage(
            action=EVENTS,
            query=query,
            names=tuple(sorted(self.services.kinds)),
            listed=rows_of(it.listed[:SHOWN], it.names, request.now, self.services.kinds),
            live_url=""
            if it.faults or it.refusal or "after" in form
            else with_query(LIVE, parameters),
            export_url=with_query(EXPORT, parameters) if it.listed else "",
            paging=pages_beside(
                EVENTS, parameters, form, after, total=at_most(it.count, MOST_COUNTED)
            ),
            faults=it.faults,
            saved=it.saved,
            refusal=None if it.refusal is None else _facts(it.refusal, request.now),
        )
        return Show(page)

    async def show_confirmation(self, request: AdminRequest) -> Outcome:
        """Show the confirmation page of an export."""
        query = _query(request.query)
        parameters = {name: value for name, value in asdict(query).items() if value}
        page = ExportPage(EXPORT, with_query(EVENTS, parameters), query, MOST_EVENTS)
        return Show(page)

    async def export(self, request: AdminRequest) -> Outcome:
        """Stream the export while it is read."""
        form = request.form
        services, query, file_format = self.services, _query(form), form.get("format")
        if file_format not in FORMATS:
            raise page_not_found()
        criteria, faults = await services.store.read(
            lambda tx: _filter(tx, query, self.services.kinds)
        )
        if faults:
            raise page_not_found()
        kind: Literal["csv", "ndjson"] = "csv" if file_format == "csv" else "ndjson"
        body = CopyWanted(
            format=kind,
            uid=criteria.uid,
            client_id=query.client,
            name=query.name,
            done_by=criteria.done_by,
            outcome=_OUTCOMES[query.outcome],
            subject=query.subject,
            since=criteria.since,
            until=criteria.until,
        )
        call = call_of(services, EXPORT_EVENTS, request.actor, request.now, body=body)
        copy = (await call.operation.run(call)).download
        pieces = None if copy is None else copy.stream
        return Download(f"events.{kind}", FORMATS[kind], pieces=pieces)


def _query(form: Form) -> EventQuery:
    parameters = {
        name: (form.get(name) or "").strip()[:_LONGEST]
        for name in ("person", "client", "name", "by", "outcome", "subject", "since", "until")
    }
    if parameters["outcome"] not in set(audit.EventOutcome):
        parameters["outcome"] = ""
    return EventQuery(**parameters)


def _filter(
    tx: Transaction, query: EventQuery, kinds: Mapping[str, type[Event]]
) -> tuple[EventFilter, Faults]:
    faults: list[tuple[str, str]] = []
    uid = None
    if query.person:
        meant = _uids(tx, query.person)
        uid = next(iter(meant), None)
        if len(meant) != 1:
            faults.append(("person", _SEVERAL if meant else _UNKNOWN_USER))
    done_by = query.by
    if done_by and " " not in done_by and done_by not in {SYSTEM, ANONYMOUS, UNKNOWN}:
        # The name of a user, as the sentences have it.
        meant = _uids(tx, done_by)
        done_by = by_user(next(iter(meant), 0))
        if len(meant) != 1:
            faults.append(("by", _SEVERAL if meant else _UNKNOWN_USER))
    if query.name and query.name not in kinds:
        faults.append(("name", _NO_EVENT))
    days = {"since": _day(query.since), "until": _day(query.until)}
    for name, day in days.items():
        if day is None and getattr(query, name):
            faults.append((name, _NO_DAY))
    if faults:
        return _NOWHERE, tuple(faults)
    since, until = days["since"], days["until"]
    criteria = EventFilter(
        uid=uid,
        client_id=query.client,
        name=query.name,
        done_by=done_by,
        since=since or Instant(0),
        until=Instant(1 << 53) if until is None else Instant(until + _LAST_SECOND),
    )
    about = audit.with_subject(criteria, query.subject, kinds)
    if about is None:
        return _NOWHERE, (("subject", _NO_SUBJECT),)
    return audit.with_outcome(about, query.outcome, kinds), ()


def _uids(tx: Transaction, text: str) -> set[int]:
    """Return the uids of users who match, including removed ones, whose events remain."""
    meant: set[int] = {user.uid for user in resolve_users(tx, text)}
    number = _UID.fullmatch(text)
    if number and int(number[1]) <= LARGEST_UID and tx.users.find(Uid(int(number[1]))):
        meant.add(int(number[1]))
    return meant


def _refused(tx: Transaction, request: AdminRequest, reference: str) -> _Found:
    refusal = refusal_of(tx, reference)
    faults = () if refusal else (("person", _NO_REFUSAL),)
    nothing = names_in(tx, ())
    return _Found((), 0, nothing, faults, saved_part(tx, request, "events", {}), refusal)


def _facts(refusal: Decision, now: Instant) -> RefusalFacts:
    return RefusalFacts(
        reference=refusal.reference,
        when=When(refusal.at, now),
        endpoint=refusal.endpoint,
        code=refusal.code,
        check=refusal.check,
        description=refusal.description,
        expected=refusal.expected,
        received=refusal.received,
        client_id=refusal.client_id or "",
        client_url=client_address(refusal.client_id) if refusal.client_id else "",
        request_id=refusal.request_id,
    )


def _day(text: str) -> Instant | None:
    if _DAY.fullmatch(text) is None:
        return None
    try:
        return Instant(max(0, int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())))
    except ValueError:
        return None
