"""/account/activity: the events that concern who is signed in, newest first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.event.actor import is_somebody_else
from valetkey.authorization.model.session import Session
from valetkey.authorization.pages.account.activity import ActivityLine, ActivityPage, Kind
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.site.site import ACTIVITY, Site
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

SHOWN = 30
"""Events on a page."""

# Later than all of them, and a number that both databases take.
_END = Instant(1 << 53)
_PLACE = re.compile(r"([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{1,60})", re.ASCII)


class _Said(msgspec.Struct):
    """What a page tells of an event beyond its name."""

    because: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class ActivityEndpoint:
    """What happened."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of it; `before` names the last event of the page above."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        query = read_query(request.query)
        before, kind = query.get("before"), _kind(query.get("kind"))
        at, place = (_END, "") if before is None else _parse(before)
        uid = seen.signed_in.user.uid
        found = await self.site.store.scan(
            lambda tx: read_activity(tx, uid, at, place, SHOWN + 1, kind)
        )
        earlier = ""
        if len(found) > SHOWN:
            last = found[SHOWN - 1].event
            only = "" if kind is None else f"&kind={kind}"
            earlier = f"{ACTIVITY}?before={last.at}.{last.id}{only}"
        lines = tuple(each.line(request.at) for each in found[:SHOWN])
        page = ActivityPage(lines, earlier, later=before is not None, kind=kind)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, and what is known today of what it names."""

    event: EventRecord
    said: _Said
    app: str
    session: Session | None

    def line(self, now: Instant) -> ActivityLine:
        """As the page tells it."""
        event, session = self.event, self.session
        browser, system = ("", "") if session is None else browser_of(session.user_agent)
        return ActivityLine(
            name=event.name,
            when=When(event.at, now),
            app=self.app,
            because=self.said.because,
            browser=browser,
            system=system,
            by_others=is_somebody_else(event.done_by, event.uid),
        )


def latest_activity(tx: Transaction, uid: Uid, limit: int, now: Instant) -> list[ActivityLine]:
    """What happened last, newest first."""
    return [each.line(now) for each in read_activity(tx, uid, _END, "", limit)]


def read_activity(
    tx: Transaction, uid: Uid, at: Instant, place: str, limit: int, kind: Kind | None = None
) -> Sequence[Happened]:
    """At most `limit` events that people are told of before that place, newest first."""
    events = tx.events.of_person(uid, at, place, limit, kind)
    said = {each.id: msgspec.json.decode(each.data, type=_Said) for each in events}
    clients = {each: tx.clients.find(each) for each in {e.client_id for e in events} if each}
    # What a client that is gone was called is not known any more.
    names = {each: (client and client.name) or each for each, client in clients.items()}
    ids = {each.session_id for each in said.values()} - {""}
    sessions = {each: tx.sessions.find_by_id(each) for each in ids}
    return [
        Happened(
            event,
            said[event.id],
            names.get(event.client_id or "", ""),
            sessions.get(said[event.id].session_id),
        )
        for event in events
    ]


def _kind(text: str | None) -> Kind | None:
    return Kind(text) if text in set(Kind) else None


def _parse(before: str) -> tuple[Instant, str]:
    match = _PLACE.fullmatch(before)
    if match is None:
        raise Refused(
            Refusal(
                ErrorCode.INVALID_REQUEST,
                "this address was not one of ours; open the page of your account again",
                "account.place",
            )
        )
    return Instant(int(match[1])), match[2]
