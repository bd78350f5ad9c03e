"""/account/activity: the events that concern who is signed in, newest first."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.endpoints.visitor.site import ACTIVITY, Site
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.pages.account.activity import ActivityLine, ActivityPage
from valetkey.authorization.pages.visitor.when import When
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


@dataclass(frozen=True, slots=True)
class ActivityEndpoint:
    """What happened."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of it; `before` names the last event of the page above."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        before = read_query(request.query).get("before")
        at, place = (_END, "") if before is None else _parse(before)
        uid = seen.signed_in.user.uid
        events, names = await self.site.store.scan(
            lambda tx: read_activity(tx, uid, at, place, SHOWN + 1)
        )
        lines = tuple(line_of(event, names, request.at) for event in events[:SHOWN])
        earlier = ""
        if len(events) > SHOWN:
            last = events[SHOWN - 1]
            earlier = f"{ACTIVITY}?before={last.at}.{last.id}"
        page = ActivityPage(lines, earlier, later=before is not None)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def latest_activity(tx: Transaction, uid: Uid, limit: int, now: Instant) -> list[ActivityLine]:
    """What happened last, newest first."""
    events, names = read_activity(tx, uid, _END, "", limit)
    return [line_of(event, names, now) for event in events]


def read_activity(
    tx: Transaction, uid: Uid, at: Instant, place: str, limit: int
) -> tuple[Sequence[EventRecord], Mapping[str, str]]:
    """At most `limit` events that people are told of before that place, and the apps' names."""
    events = tx.events.of_person(uid, at, place, limit)
    found = {each: tx.clients.find(each) for each in {e.client_id for e in events} if each}
    # What a client that is gone was called is not known any more.
    names = {each: (client and client.name) or each for each, client in found.items()}
    return events, names


def line_of(event: EventRecord, names: Mapping[str, str], now: Instant) -> ActivityLine:
    """The event as the page tells it."""
    return ActivityLine(
        name=event.name,
        when=When(event.at, now),
        app=names.get(event.client_id or "", ""),
        because=msgspec.json.decode(event.data, type=_Said).because,
    )


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
