"""Usage statistics: events are counted in the background, by day and client."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.event.accounts import SessionRenewed, SessionStarted, SignInFailed
from valetkey.authorization.model.event.chain import EVENTS
from valetkey.authorization.model.event.grants import AccessTokenIssued, CodeIssued
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import EVERY_CLIENT, EVERY_CLIENT_BY_HOUR, day_of
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant, minutes

LAG = minutes(2)
"""The age at which events are counted.

An event has the time of its request and becomes visible with its commit: counting up to the present
would miss those that commit a moment later. Deadlines end every request before this age.
"""

DAYS_KEPT = 400
"""Days for which counts are stored, so that a year can be compared with the one before."""

PEOPLE_DAYS = 90
"""Days without activity after which a user's entry is deleted."""

BATCH = 250
"""Events counted in one transaction: a few milliseconds in which SQLite has no other writer."""

PEOPLE = "people"
"""The kind of the rows that count users, each once a day."""

SIGN_INS = "sign_ins"
FAILED_SIGN_INS = "sign_ins_failed"
TOKENS = "tokens"
ERRORS = "errors"
"""The kinds of the rows that count what the whole server did in an hour."""
_TOKENS = "tokens."
_ERRORS = "errors."
_HOUR, _HOURS = 3_600, 24
_APIS = "apis."

# Events with which an access token was issued; `access_token.issued` names its own grant type.
_ISSUED: Mapping[str, str] = MappingProxyType(
    {event.name: event.issued_by for event in EVENTS if event.issued_by}
)


class _EventData(msgspec.Struct):
    """The members of an event's data that are counted."""

    grant_type: str = ""
    scope: str = ""
    pkce: bool | None = None
    audience: str = ""


class Day(Struct, frozen=True):
    """The counts of one day, for one client or for all."""

    day: int
    tokens: Mapping[str, int]
    """Number of access tokens by grant type."""
    people: int
    """Number of different users for whom tokens were issued."""
    errors: Mapping[str, int]
    """Number of refusals by error code."""
    apis: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of access tokens by API; tokens issued by earlier versions are not counted."""
    sign_ins: int = 0
    failed_sign_ins: int = 0
    """Number of failed sign-ins, for the whole server only."""


class _Counts(Struct):
    """The counts of a batch of events."""

    counts: Counter[tuple[str, int, str]] = field(default_factory=Counter[tuple[str, int, str]])
    people: dict[tuple[int, str, int], None] = field(
        default_factory=dict[tuple[int, str, int], None]
    )
    latest: dict[tuple[str, str], Instant] = field(default_factory=dict[tuple[str, str], Instant])

    def add(self, client_id: str, day: int, kind: str) -> None:
        self.counts[client_id, day, kind] += 1
        self.counts[EVERY_CLIENT, day, kind] += 1

    def add_for_server(self, at: Instant, kind: str) -> None:
        """Count for the server by day, and by hour what the console shows by hour."""
        self.counts[EVERY_CLIENT, day_of(at), kind] += 1
        self.add_by_hour(at, kind)

    def add_by_hour(self, at: Instant, kind: str) -> None:
        hour = at // _HOUR % _HOURS
        self.counts[EVERY_CLIENT_BY_HOUR, day_of(at), f"{hour:02}.{kind}"] += 1

    def keep_latest(self, client_id: str, what: str, at: Instant) -> None:
        self.latest[client_id, what] = at


def roll_up(tx: Transaction, now: Instant) -> int:
    """Count at most `BATCH` new events. Return their number.

    Safe in any number of processes at once: the cursor moves in the same transaction, and a process
    that loses the race counts nothing.
    """
    before = tx.usage.cursor()
    # Events that are too old to be kept are not counted first.
    start = max(before, (Instant(now - DAYS_KEPT * 86_400), ""))
    events = [event for event in tx.events.page(*start, limit=BATCH) if event.at < now - LAG]
    if not events or not tx.usage.advance(before, (events[-1].at, events[-1].id)):
        return 0
    tally = _Counts()
    for event in events:
        _count(tally, event)
    # Sorted: two transactions that lock rows in different orders would deadlock.
    for day, client_id, uid in sorted(tally.people):
        if tx.usage.was_active(client_id, uid, day):
            tally.counts[client_id, day, PEOPLE] += 1
    for (client_id, day, kind), amount in sorted(tally.counts.items()):
        tx.usage.count(client_id, day, kind, amount)
    for (client_id, what), at in sorted(tally.latest.items()):
        tx.usage.record(client_id, what, at)
    return len(events)


def count_refusals(tx: Transaction, decisions: Sequence[Decision]) -> None:
    """Count refusals, in the transaction that stores them."""
    tally = _Counts()
    for decision in decisions:
        day, kind = day_of(decision.at), _ERRORS + decision.code
        tally.counts[EVERY_CLIENT, day, kind] += 1
        tally.add_by_hour(decision.at, ERRORS)
        if decision.client_id is not None:
            tally.counts[decision.client_id, day, kind] += 1
    for (client_id, day, kind), amount in sorted(tally.counts.items()):
        tx.usage.count(client_id, day, kind, amount)


def usage_of(tx: Transaction, client_id: str | None, since: Instant) -> Sequence[Day]:
    """Return the days since `since` on which anything was counted, oldest first.

    `client_id` None is for all clients together, with the sign-ins of the server. Numbers are at
    most two minutes and a round of maintenance behind.
    """
    days: dict[int, list[tuple[str, int]]] = {}
    for counted in tx.usage.since(client_id or EVERY_CLIENT, day_of(since)):
        days.setdefault(counted.day, []).append((counted.kind, counted.amount))
    return [_day(day, dict(kinds)) for day, kinds in days.items()]


def hourly_usage(tx: Transaction, now: Instant) -> Mapping[str, Sequence[int]]:
    """Return the server's counts of each of the last 24 hours, oldest first, by kind.

    The kinds are `SIGN_INS`, `FAILED_SIGN_INS`, `TOKENS` and `ERRORS`.
    """
    first = now // _HOUR - _HOURS + 1
    counts = {kind: [0] * _HOURS for kind in (SIGN_INS, FAILED_SIGN_INS, TOKENS, ERRORS)}
    for counted in tx.usage.since(EVERY_CLIENT_BY_HOUR, first // _HOURS):
        hour, _, kind = counted.kind.partition(".")
        index = counted.day * _HOURS + int(hour) - first
        if kind in counts and 0 <= index < _HOURS:
            counts[kind][index] += counted.amount
    return counts


def sweep_counts(tx: Transaction, now: Instant, limit: int) -> int:
    """Delete at most `limit` counts that are older than `DAYS_KEPT`."""
    return tx.usage.sweep_counts(day_of(now) - DAYS_KEPT, limit)


def sweep_people(tx: Transaction, now: Instant, limit: int) -> int:
    """Delete at most `limit` entries of users without recent activity."""
    return tx.usage.sweep_people(day_of(now) - PEOPLE_DAYS, limit)


def _count(tally: _Counts, event: EventRecord) -> None:
    day = day_of(event.at)
    if event.name in {SessionStarted.name, SessionRenewed.name}:
        tally.add_for_server(event.at, SIGN_INS)
    elif event.name == SignInFailed.name:
        tally.add_for_server(event.at, FAILED_SIGN_INS)
    elif event.client_id:
        _count_of_client(tally, event, event.client_id, day)


def _count_of_client(tally: _Counts, event: EventRecord, client_id: str, day: int) -> None:
    issued = event.name == AccessTokenIssued.name
    if not issued and event.name not in {*_ISSUED, CodeIssued.name}:
        return
    data = msgspec.json.decode(event.data, type=_EventData)
    if event.name == CodeIssued.name:
        if data.pkce is not None:
            tally.keep_latest(client_id, PKCE_USED if data.pkce else PKCE_MISSING, event.at)
        return
    grant_type = data.grant_type if issued else _ISSUED[event.name]
    tally.add(client_id, day, _TOKENS + grant_type)
    tally.add_by_hour(event.at, TOKENS)
    if data.audience:
        tally.add(client_id, day, _APIS + data.audience)
    tally.keep_latest(client_id, grant_used(grant_type), event.at)
    for name in data.scope.split():
        tally.keep_latest(client_id, scope_used(name), event.at)
    if event.uid is not None:
        tally.people[day, client_id, event.uid] = None
        tally.people[day, EVERY_CLIENT, event.uid] = None


PKCE_USED = "pkce used"
PKCE_MISSING = "pkce missing"
"""The name under which an authorization request without PKCE that led to a code is recorded."""


def grant_used(grant_type: str) -> str:
    """Return the name under which the last token of a grant type is recorded."""
    return f"grant {grant_type}"


def scope_used(name: str) -> str:
    """Return the name under which the last token with a scope is recorded."""
    return f"scope {name}"


def _day(day: int, kinds: Mapping[str, int]) -> Day:
    def below(start: str) -> Mapping[str, int]:
        return {
            kind.removeprefix(start): amount
            for kind, amount in kinds.items()
            if kind.startswith(start)
        }

    return Day(
        day=day,
        tokens=below(_TOKENS),
        people=kinds.get(PEOPLE, 0),
        errors=below(_ERRORS),
        apis=below(_APIS),
        sign_ins=kinds.get(SIGN_INS, 0),
        failed_sign_ins=kinds.get(FAILED_SIGN_INS, 0),
    )
