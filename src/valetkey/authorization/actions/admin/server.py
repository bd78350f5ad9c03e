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
from valetkey.authorization.actions.usage import (
    ERRORS,
    FAILED_SIGN_INS,
    SIGN_INS,
    TOKENS,
    Day,
    hourly_usage,
    usage_of,
)
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.administration import BrandChanged
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.administration import Key
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, ClientFilter, EventFilter
from valetkey.authorization.storage.signing_keys import SigningKeyRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import day_of, day_text, start_of
from valetkey.authorization.storage.users import Filter
from valetkey.config import rules
from valetkey.config.sections.people import BrandField, BrandSettings
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.secret import to_base64url

_SHOWN = 10


class EmailQueueSummary(Struct, frozen=True):
    """The number of queued emails, and the results of the latest, newest first."""

    waiting: int
    sent: Sequence[EventRecord]
    given_up: Sequence[EventRecord]


def email_queue(tx: Transaction, actor: Actor) -> EmailQueueSummary:
    """Return the state of the email queue. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    sent = EventFilter(name="mail.dispatched")
    given_up = EventFilter(name="mail.given_up")
    return EmailQueueSummary(
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
    """Return the brand of the configuration file, overridden by what an administrator stored."""
    return {**brand_of(settings), **tx.brand.all()}


LOGOS = "/logos/"
"""The path below which uploaded logos are served."""


def logo_path(image: bytes) -> str:
    """Return the path of an encoded image as a logo.

    It follows from the content, so that no cache shows the previous one.
    """
    return f"{LOGOS}{to_base64url(sha256(image).digest()[:16])}"


def uploaded_logo(tx: Transaction, path: str) -> bytes | None:
    """Return the encoded image that was uploaded and has this path, or None."""
    return tx.brand.logo(path.removeprefix(LOGOS)) if path.startswith(LOGOS) else None


def change_logo(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    field: BrandField,
    image: bytes,
    now: Instant,
) -> Mapping[BrandField, str]:
    """Store an encoded image as the logo, for light or for dark mode. Return the brand.

    Raises Refused (forbidden).
    """
    changed = change_brand(tx, actor, settings, {}, now, logos={field: image})
    if isinstance(changed, tuple):
        raise TypeError(changed)  # the path was made here
    return changed


def change_brand(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    changes: Mapping[BrandField, str | None],
    now: Instant,
    logos: Mapping[BrandField, bytes] = MappingProxyType({}),
) -> Mapping[BrandField, str] | tuple[MetadataError, ...]:
    """Change the brand. Return the result, or the errors. None as a value restores the setting.

    `logos` are encoded images, by the field of their path. Pages of every process follow within
    seconds. Raises Refused (forbidden).
    """
    tx.brand.take_turn()
    require(tx, actor, Permission.SETTINGS)
    faults: list[MetadataError] = []
    values: dict[BrandField, str | None] = {}
    for field, value in changes.items():
        try:
            values[field] = None if value is None else str(_RULES[field].read(value.strip()))
        except rules.InvalidValue:
            faults.append(MetadataError(field.value, _RULES[field].expected))
    if values.get(BrandField.NAME) == "":
        faults.append(MetadataError(BrandField.NAME.value, _NAME.expected))
    if faults:
        return tuple(faults)
    for field, image in logos.items():
        values[field] = logo_path(image)
        tx.brand.store_logo(logo_path(image).removeprefix(LOGOS), image, now)
    base = brand_of(settings)
    before = current_brand(tx, settings)
    for field, value in values.items():
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
_HOUR, _HOURS = 3_600, 24
_REFUSED = 400
_FAILED = 500


class ResponseOutcome(StrEnum):
    """The result class of a request."""

    GOOD = "good"
    REFUSED = "refused"
    FAILED = "failed"  # a status of 500 or more


_GOOD = ResponseOutcome.GOOD.value
_STEPS_AND_LONGER = (*_STEPS, LONGER)


class Responses(Struct, frozen=True):
    """Responses of one hour or day, counted from 1970: their number, failures and times.

    Half took at most `median` milliseconds and 95 % at most `most`, both rounded up to the next
    bucket; 0 without requests.
    """

    period: int
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
        outcome = (
            ResponseOutcome.FAILED.value if status >= _FAILED else ResponseOutcome.REFUSED.value
        )
    return hour_of(at), outcome, _STEPS_AND_LONGER[bisect_left(_STEPS, seconds * 1_000)]


def last_responses(
    tx: Transaction, now: Instant, count: int, width: int = 1
) -> Sequence[Responses]:
    """Return the last `count` periods of `width` hours, the current one included, without gaps."""
    latest = hour_of(now) // width
    first = latest - count + 1
    counters: dict[int, Counter[tuple[str, int]]] = {}
    for (period, outcome, within), amount in tx.response_times.since(first * width, width):
        counters.setdefault(period, Counter())[outcome, within] += amount
    return [
        _responses(period_number, counters.get(period_number, Counter()))
        for period_number in range(first, latest + 1)
    ]


def sweep_latency(tx: Transaction, now: Instant, limit: int) -> int:
    """Delete at most `limit` counts that are older than `KEPT`."""
    return tx.response_times.sweep(hour_of(Instant(now - KEPT)), limit)


def _responses(period: int, amounts: Counter[tuple[str, int]]) -> Responses:
    failures = sum(n for (outcome, _), n in amounts.items() if outcome == ResponseOutcome.FAILED)
    return Responses(period, amounts.total(), failures, _within(amounts, 50), _within(amounts, 95))


def _within(amounts: Counter[tuple[str, int]], percent: int) -> int:
    so_far = 0
    for step in _STEPS_AND_LONGER:
        so_far += sum(amount for (_, within), amount in amounts.items() if within == step)
        if so_far and so_far * 100 >= amounts.total() * percent:
            return step
    return 0


DAYS = 30
"""Default number of days shown."""

MOST = 100_000
"""Largest total that is counted exactly, so that a page never reads millions of rows."""


class Amount(Struct, frozen=True):
    """A total; `more` if counting stopped at a limit."""

    count: int
    more: bool


class Totals(Struct, frozen=True):
    """How much there is now."""

    people: Amount
    clients: Amount
    grants: Amount


class ActivityCounts(Struct, frozen=True):
    """What happened in each hour or day, oldest first, without gaps.

    `labels` are hours such as 14:00 or dates such as 2026-11-21, in UTC.
    """

    labels: Sequence[str]
    sign_ins: Sequence[int]
    failed_sign_ins: Sequence[int]
    tokens: Sequence[int]
    errors: Sequence[int]
    responses: Sequence[Responses]


def totals(tx: Transaction, actor: Actor, now: Instant) -> Totals:
    """Count users, clients and grants. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return Totals(
        _amount(tx.user_directory.count_matching(Filter.ALL, MOST + 1)),
        _amount(tx.client_search.count(ClientFilter(), MOST + 1) or 0),
        _amount(tx.user_directory.count_grants(MOST + 1, now)),
    )


def last_days(tx: Transaction, actor: Actor, now: Instant, count: int = DAYS) -> Sequence[Day]:
    """Return the last `count` days without gaps. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    first = day_of(now) - count + 1
    counted = {day.day: day for day in usage_of(tx, None, start_of(first))}
    return [counted.get(day, Day(day, {}, 0, {})) for day in range(first, first + count)]


def activity(tx: Transaction, actor: Actor, now: Instant, of_days: int) -> ActivityCounts:
    """Return the last 24 hours by hour for one day, else days. Raises Refused (forbidden)."""
    if of_days == 1:
        require(tx, actor, Permission.READ)
        responses, counted = last_responses(tx, now, _HOURS), hourly_usage(tx, now)
        return ActivityCounts(
            [f"{hour.period % _HOURS:02}:00" for hour in responses],
            counted[SIGN_INS],
            counted[FAILED_SIGN_INS],
            counted[TOKENS],
            counted[ERRORS],
            responses,
        )
    days = last_days(tx, actor, now, of_days)
    return ActivityCounts(
        [day_text(day.day) for day in days],
        [day.sign_ins for day in days],
        [day.failed_sign_ins for day in days],
        [sum(day.tokens.values()) for day in days],
        [sum(day.errors.values()) for day in days],
        last_responses(tx, now, of_days, _HOURS),
    )


def _amount(count: int) -> Amount:
    return Amount(min(count, MOST), count > MOST)
