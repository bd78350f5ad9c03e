"""Administration of the server: overview, brand, signing keys, and email queue."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.actions.usage import Day, usage_of
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.administration import BrandChanged
from valetkey.authorization.model.signing_key import SigningKeyRecord
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.administration import Key
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, ClientFilter, EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import day_of, start_of
from valetkey.authorization.storage.users import Filter
from valetkey.config import rules
from valetkey.config.sections.people import BrandField, BrandSettings
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.secret import to_base64url

_SHOWN = 10


class EmailQueueState(Struct, frozen=True):
    """The number of queued emails, and the results of the latest, newest first."""

    waiting: int
    sent: Sequence[EventRecord]
    given_up: Sequence[EventRecord]


def email_queue(tx: Transaction, actor: Actor) -> EmailQueueState:
    """Return the state of the email queue. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    sent = EventFilter(name="mail.dispatched")
    given_up = EventFilter(name="mail.given_up")
    return EmailQueueState(
        tx.mails.waiting(),
        tx.event_search.page(sent, END, _SHOWN),
        tx.event_search.page(given_up, END, _SHOWN),
    )


def send_test(
    tx: Transaction, actor: Actor, outbox: MailOutbox, uid: Uid, now: Instant
) -> User | None:
    """Send a test email to the calling administrator; None if mail is off.

    The recipient cannot be chosen, so that this cannot be used to send email to others. Raises
    Refused (forbidden).
    """
    require(tx, actor, Permission.SETTINGS)
    user = tx.users.find(uid)
    if user is None:
        return None
    message = Email(EmailKind.TEST, user.email, user.claims.locale, {}, user.uid)
    return user if outbox.enqueue(tx, message, now) else None


def transport_of(outbox: MailOutbox) -> Literal["smtp", "mailbox", "off"]:
    """Return how email is delivered."""
    if not outbox.is_on:
        return "off"
    return "mailbox" if outbox.settings.is_mailbox else "smtp"


def signing_keys(tx: Transaction, actor: Actor, now: Instant) -> Sequence[SigningKeyRecord]:
    """Return every published key, the earliest to sign first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.signing_keys.all(now)


_LONGEST_NAME = 60
_NAME = rules.text(_LONGEST_NAME, f"a name of 1 to {_LONGEST_NAME} characters")
_RULES: Mapping[BrandField, rules.Rule] = MappingProxyType(
    {
        BrandField.NAME: _NAME,
        BrandField.ACCENT: rules.COLOUR,
        BrandField.LOGO_URL: rules.LOGO,
        BrandField.LOGO_DARK_URL: rules.LOGO,
        BrandField.TERMS_URL: rules.LINK,
        BrandField.PRIVACY_URL: rules.LINK,
    }
)


def brand_of(settings: BrandSettings) -> Mapping[BrandField, str]:
    """Return the brand of the configuration file."""
    return {field: str(getattr(settings, field.value)) for field in BrandField}


def current_brand(tx: Transaction, settings: BrandSettings) -> Mapping[BrandField, str]:
    """Return the current brand."""
    return {**brand_of(settings), **tx.brand.all()}


LOGOS = "/logos/"
"""The path below which uploaded logos are served."""


def change_logo(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    field: BrandField,
    image: bytes,
    now: Instant,
) -> Mapping[BrandField, str]:
    """Store an encoded image as the logo, for light or for dark mode. Return the brand.

    Its address follows from its content, so that no cache shows the previous one. Raises Refused
    (forbidden).
    """
    tx.brand.take_turn()
    require(tx, actor, Permission.SETTINGS)
    name = to_base64url(sha256(image).digest()[:16])
    tx.brand.store_logo(name, image, now)
    changed = change_brand(tx, actor, settings, {field: f"{LOGOS}{name}"}, now)
    if isinstance(changed, tuple):
        raise TypeError(changed)  # the path was made here
    return changed


def change_brand(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    changes: Mapping[BrandField, str | None],
    now: Instant,
) -> Mapping[BrandField, str] | tuple[MetadataError, ...]:
    """Change the brand. Return the result, or the errors. None as a value restores the setting.

    Pages of every process follow within seconds. Raises Refused (forbidden).
    """
    tx.brand.take_turn()
    require(tx, actor, Permission.SETTINGS)
    faults: list[MetadataError] = []
    wanted: dict[BrandField, str | None] = {}
    for field, value in changes.items():
        try:
            wanted[field] = None if value is None else str(_RULES[field].read(value.strip()))
        except rules.InvalidValue:
            faults.append(MetadataError(field.value, _RULES[field].expected))
    if wanted.get(BrandField.NAME) == "":
        faults.append(MetadataError(BrandField.NAME.value, _NAME.expected))
    if faults:
        return tuple(faults)
    base = brand_of(settings)
    before = current_brand(tx, settings)
    for field, value in wanted.items():
        if value is None or value == base[field]:
            tx.brand.drop(field)
        else:
            tx.brand.set(field, value, now)
    after = current_brand(tx, settings)
    tx.brand.drop_logos(
        [
            after[field].removeprefix(LOGOS)
            for field in (BrandField.LOGO_URL, BrandField.LOGO_DARK_URL)
        ]
    )
    for field in BrandField:
        if before[field] != after[field]:
            tx.events.add(BrandChanged(field.value, before[field], after[field]), now)
    return after


KEPT = hours(24 * 90)
"""How long the counts of an hour are kept."""

LONGER = 10_000
"""The bucket, in milliseconds, of responses that took more than five seconds."""

_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_HOUR = 3_600
_REFUSED = 400
_FAILED = 500


class Outcome(StrEnum):
    """The result class of a request."""

    GOOD = "good"
    REFUSED = "refused"
    FAILED = "failed"  # a status of 500 or more


_GOOD = Outcome.GOOD.value
_STEPS_AND_LONGER = (*_STEPS, LONGER)


class Hour(Struct, frozen=True):
    """Requests of one hour: their number, failures, and response times.

    Half took at most `median` milliseconds and 95 % at most `most`, both rounded up to the next
    bucket; 0 without requests.
    """

    hour: int
    answers: int
    failures: int
    median: int
    most: int


def hour_of(at: Instant) -> int:
    """Return the hour of a time, counted from 1970."""
    return at // _HOUR


def key_of(at: Instant, status: int, seconds: float) -> Key:
    """Return the key under which a response is counted: hour, outcome, bucket of its duration."""
    outcome = _GOOD
    if status >= _REFUSED:
        outcome = Outcome.FAILED.value if status >= _FAILED else Outcome.REFUSED.value
    return hour_of(at), outcome, _STEPS_AND_LONGER[bisect_left(_STEPS, seconds * 1_000)]


def last_hours(tx: Transaction, now: Instant, count: int) -> Sequence[Hour]:
    """Return the last `count` hours, including those without requests and the current one."""
    latest = hour_of(now)
    found: dict[int, Counter[tuple[str, int]]] = {}
    for (hour, outcome, within), amount in tx.response_times.since(latest - count + 1):
        found.setdefault(hour, Counter())[outcome, within] += amount
    return [
        _hour(hour, found.get(hour, Counter())) for hour in range(latest - count + 1, latest + 1)
    ]


def sweep_latency(tx: Transaction, now: Instant, limit: int) -> int:
    """Delete at most `limit` counts that are older than `KEPT`."""
    return tx.response_times.sweep(hour_of(Instant(now - KEPT)), limit)


def _hour(hour: int, amounts: Counter[tuple[str, int]]) -> Hour:
    failures = sum(n for (outcome, _), n in amounts.items() if outcome == Outcome.FAILED)
    return Hour(hour, amounts.total(), failures, _within(amounts, 50), _within(amounts, 95))


def _within(amounts: Counter[tuple[str, int]], percent: int) -> int:
    so_far = 0
    for step in _STEPS_AND_LONGER:
        so_far += sum(amount for (_, within), amount in amounts.items() if within == step)
        if so_far and so_far * 100 >= amounts.total() * percent:
            return step
    return 0


DAYS = 30
"""Default number of days shown."""

HOURS = 24
"""Number of hours shown."""

MOST = 100_000
"""Largest total that is counted exactly, so that a page never reads millions of rows."""


class Amount(Struct, frozen=True):
    """A total; `more` if counting stopped at a limit."""

    count: int
    more: bool


class ServerOverview(Struct, frozen=True):
    """The last days and 24 hours without gaps, and current totals."""

    days: Sequence[Day]
    hours: Sequence[Hour]
    people: Amount
    clients: Amount
    grants: Amount


def overview(tx: Transaction, actor: Actor, now: Instant, of_days: int = DAYS) -> ServerOverview:
    """Return the overview of the last `of_days` days. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    today = day_of(now)
    counted = {day.day: day for day in usage_of(tx, None, start_of(today - of_days + 1))}
    days = [counted.get(day, Day(day, {}, 0, {})) for day in range(today - of_days + 1, today + 1)]
    people, clients, grants = (
        _amount(count)
        for count in (
            tx.user_directory.count_matching(Filter.ALL, MOST + 1),
            tx.client_search.count(ClientFilter(), MOST + 1) or 0,
            tx.user_directory.count_grants(MOST + 1, now),
        )
    )
    return ServerOverview(days, last_hours(tx, now, HOURS), people, clients, grants)


def _amount(count: int) -> Amount:
    return Amount(min(count, MOST), count > MOST)
