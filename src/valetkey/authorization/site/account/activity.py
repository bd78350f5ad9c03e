"""/account/activity: the events of an account, newest first."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.layout.addresses import ACTIVITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.event.event import (
    ActivityKind,
    ActivityText,
    Event,
    is_other_actor,
)
from valetkey.authorization.model.user import Session, Uid
from valetkey.authorization.site.page import (
    ONE_PAGE,
    AnyPage,
    Outcome,
    Page,
    Paging,
    Show,
    SignedInRequest,
    pages_beside,
    signed_in,
)
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable

SHOWN = 30
"""Maximum number of events on a page."""

# Number of events that are read: most are refreshes of tokens, which the page does not list.
_RECENT = 1_000
# Later than all events, and an integer that both databases store.
_END = Instant(1 << 53)
_PLACE = re.compile(r"([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{1,60})", re.ASCII)


class ListedEvents(Struct, frozen=True):
    """The texts of the events that the page lists, by their names."""

    texts: Mapping[str, ActivityText]

    @staticmethod
    def from_kinds(kinds: Mapping[str, type[Event]]) -> "ListedEvents":
        """Return those of these kinds of events."""
        return ListedEvents({name: it.activity for name, it in kinds.items() if it.activity})

    def names(self, kind: ActivityKind | None = None) -> Sequence[str]:
        """Return the names of the events of a category, of all without one."""
        return [name for name, it in self.texts.items() if kind in {None, it.kind}]

    def text(self, name: str, because: str = "") -> str:
        """Return what is said about an event that happened for this reason."""
        sentence = self.texts[name]
        return sentence.by_reason.get(because, sentence.text)


class ActivityLine(Struct, frozen=True):
    """One event: its text and time, and the app that it is about, "" for none.

    `browser`, `system` and `ip_address` are those of its request, else of its session, and "" where
    they are unknown or of another user.
    """

    text: str
    when: When
    app: str = ""
    browser: str = ""
    system: str = ""
    ip_address: str = ""
    #: Whether an administrator did it.
    by_others: bool = False


class ActivityPage(Struct, frozen=True):
    """The context of activity.html, newest first."""

    template: ClassVar[str] = "account/activity.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    lines: tuple[ActivityLine, ...]
    paging: Paging = ONE_PAGE
    #: The category that is listed; None for all.
    kind: ActivityKind | None = None


class _EventData(msgspec.Struct):
    """The data of an event that the page shows."""

    because: str = ""
    session_id: str = ""


class AccountActivity(Struct, frozen=True):
    """List what happened to an account."""

    store: Store
    listed: ListedEvents

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Activity")
        return (Page(ACTIVITY, signed_in, self.show, title=title, nav=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show a page of the account's events; `before` is the last event of the previous page."""
        before, kind = request.query.get("before"), _kind(request.query.get("kind"))
        at, before_id = (_END, "") if before is None else _parse(before)
        uid = request.user.uid
        names = self.listed.names(kind)
        entries = await self.store.scan(lambda tx: _read(tx, uid, at, before_id, names))
        last = entries[SHOWN - 1].event if len(entries) > SHOWN else None
        more = f"{last.at}.{last.id}" if last else ""
        parameters = {} if kind is None else {"kind": kind.value}
        lines = tuple(entry.line(self.listed, request.now) for entry in entries[:SHOWN])
        pages = pages_beside(ACTIVITY, parameters, request.query, more, name="before")
        return Show(ActivityPage(lines, pages, kind=kind))


class ActivityEntry(Struct, frozen=True):
    """An event with the app and the session that it names."""

    event: EventRecord
    data: _EventData
    app: str
    session: Session | None

    def line(self, listed: ListedEvents, now: Instant) -> ActivityLine:
        """Return the event as the page shows it."""
        event, session = self.event, self.session
        by_others = is_other_actor(event.done_by, event.uid)
        # Where an administrator works is not for the user to know.
        origin = None if by_others else event.origin
        browser, system = ("", "") if session is None else browser_of(session.user_agent)
        if origin is not None:
            browser, system = origin.browser, origin.system
        return ActivityLine(
            text=listed.text(event.name, self.data.because),
            when=When(event.at, now),
            app=self.app,
            browser=browser,
            system=system,
            ip_address="" if origin is None else origin.address,
            by_others=by_others,
        )


def latest_activity(
    tx: Transaction, listed: ListedEvents, uid: Uid, limit: int, now: Instant
) -> list[ActivityLine]:
    """Return the latest listed events among the last `_RECENT`, newest first, without browsers."""
    events = tx.events.of_person(uid, _END, "", limit, listed.names(), among=_RECENT)
    return [entry.line(listed, now) for entry in _entries(tx, events, {})]


def _read(
    tx: Transaction, uid: Uid, at: Instant, before_id: str, names: Sequence[str]
) -> Sequence[ActivityEntry]:
    """Return the events of a page and one more, newest first."""
    events = tx.events.of_person(uid, at, before_id, SHOWN + 1, names)
    ids = {_event_data(event).session_id for event in events} - {""}
    return _entries(
        tx, events, {session_id: tx.sessions.find_by_id(session_id) for session_id in ids}
    )


def _entries(
    tx: Transaction, events: Sequence[EventRecord], sessions: Mapping[str, Session | None]
) -> Sequence[ActivityEntry]:
    # The name of a deleted client is not known any more.
    names = {
        client_id: tx.clients.name_of(client_id)
        for client_id in {e.client_id for e in events}
        if client_id
    }
    return [
        ActivityEntry(
            event,
            data := _event_data(event),
            names.get(event.client_id or "") or event.client_id or "",
            sessions.get(data.session_id),
        )
        for event in events
    ]


def _event_data(event: EventRecord) -> _EventData:
    return msgspec.json.decode(event.data, type=_EventData)


def _kind(text: str | None) -> ActivityKind | None:
    return ActivityKind(text) if text in set(ActivityKind) else None


def _parse(before: str) -> tuple[Instant, str]:
    match = _PLACE.fullmatch(before)
    if match is None:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "this address is invalid; open your account page again",
            "account.place",
        )
    return Instant(int(match[1])), match[2]
