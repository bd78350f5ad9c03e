"""The audit log for administrators: search it, and export it as CSV or NDJSON."""

import csv
import io
from collections.abc import AsyncGenerator, Sequence

import msgspec

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.event.administration import EventsExported
from valetkey.authorization.storage.records import NOWHERE, EventRecord
from valetkey.authorization.storage.search import END, EventFilter, TimeCursor
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant

FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""The formats of a copy, with their media types."""

MOST = 100_000
"""Maximum number of events in one copy."""

_PIECE = 500
_HEAD = (
    "id",
    "at",
    "name",
    "client_id",
    "uid",
    "grant_id",
    "done_by",
    "data",
    "ip_address",
    "browser",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def page(
    tx: Transaction, actor: Actor, wanted: EventFilter, before: TimeCursor, limit: int
) -> Sequence[EventRecord]:
    """Return at most `limit` events, newest first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.event_search.page(wanted, before, limit)


def begin_export(tx: Transaction, actor: Actor, format: str, now: Instant) -> None:
    """Record in the log that a copy is taken. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    tx.events.add(EventsExported(format), now)


async def export(
    store: Store, actor: Actor, wanted: EventFilter, format: str
) -> AsyncGenerator[bytes]:
    """Yield the copy in pieces, newest first; a piece is read once the one before was sent."""
    if format == "csv":
        yield _csv([_HEAD])
    place, left = END, MOST
    while left > 0:
        before, limit = place, min(_PIECE, left)
        found = await store.scan(
            # Checked for each piece: the actor may lose the role meanwhile.
            lambda tx, before=before, limit=limit: page(tx, actor, wanted, before, limit)  # type: ignore[misc]
        )
        if found:
            yield _csv([_row(each) for each in found]) if format == "csv" else _ndjson(found)
            place = TimeCursor(found[-1].at, found[-1].id)
        left -= len(found)
        if len(found) < limit:
            return


def _row(event: EventRecord) -> Sequence[str]:
    origin = event.origin or NOWHERE
    told = (
        event.id,
        event.at,
        event.name,
        event.client_id,
        event.uid,
        event.grant_id,
        event.done_by,
        event.data,
        origin.address,
        origin.shown_browser,
    )
    return ["" if each is None else escape_formula(str(each)) for each in told]


def escape_formula(text: str) -> str:
    """Return the text, after an apostrophe if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\r\n").writerows(rows)
    return written.getvalue().encode()


def _ndjson(found: Sequence[EventRecord]) -> bytes:
    return b"".join(msgspec.json.encode(as_json(each)) + b"\n" for each in found)


def as_json(event: EventRecord) -> dict[str, object]:
    """Return the event as it appears in NDJSON and in the admin API."""
    origin = event.origin or NOWHERE
    return {
        "id": event.id,
        "at": event.at,
        "name": event.name,
        "client_id": event.client_id,
        "uid": event.uid,
        "grant_id": event.grant_id,
        "done_by": event.done_by,
        "data": msgspec.json.decode(event.data, type=dict[str, object]),
        "ip_address": origin.address,
        "browser": origin.shown_browser,
    }
