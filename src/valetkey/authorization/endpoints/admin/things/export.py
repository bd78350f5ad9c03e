"""Copies of the log, a piece at a time: as CSV that no spreadsheet executes, or as NDJSON."""

import csv
import io
from collections.abc import AsyncGenerator, Sequence

import msgspec

from valetkey.authorization.deeds.admin.permissions import Actor
from valetkey.authorization.deeds.admin.things import events
from valetkey.authorization.storage.administration.client_search import END, Place
from valetkey.authorization.storage.administration.event_search import EventFilter
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Store
from valetkey.web.exchange import Response

FORMATS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""What a copy may be, and its media type."""

MOST = 100_000
"""Events in one copy."""

_PIECE = 500
_HEAD = ("id", "at", "name", "client_id", "uid", "grant_id", "done_by", "data")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def copy_of(store: Store, actor: Actor, wanted: EventFilter, format: str) -> Response:
    """The copy, newest first; each piece is read when the one before is on its way."""
    headers = (
        ("content-type", FORMATS[format]),
        ("content-disposition", f'attachment; filename="events.{format}"'),
        ("cache-control", "no-store"),
    )
    return Response(200, b"", headers, _pieces(store, actor, wanted, format))


async def _pieces(
    store: Store, actor: Actor, wanted: EventFilter, format: str
) -> AsyncGenerator[bytes]:
    if format == "csv":
        yield _csv([_HEAD])
    place, left = END, MOST
    while left > 0:
        before, limit = place, min(_PIECE, left)
        found = await store.scan(
            # Whose role is taken away meanwhile gets no more of it.
            lambda tx, before=before, limit=limit: events.page(tx, actor, wanted, before, limit)  # type: ignore[misc]
        )
        if found:
            yield _csv([_row(each) for each in found]) if format == "csv" else _ndjson(found)
            place = Place(found[-1].at, found[-1].id)
        left -= len(found)
        if len(found) < limit:
            return


def _row(event: EventRecord) -> Sequence[str]:
    told = (
        event.id,
        event.at,
        event.name,
        event.client_id,
        event.uid,
        event.grant_id,
        event.done_by,
        event.data,
    )
    return ["" if each is None else harmless(str(each)) for each in told]


def harmless(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\r\n").writerows(rows)
    return written.getvalue().encode()


def _ndjson(found: Sequence[EventRecord]) -> bytes:
    return b"".join(msgspec.json.encode(as_json(each)) + b"\n" for each in found)


def as_json(event: EventRecord) -> dict[str, object]:
    """An event for programs."""
    return {
        "id": event.id,
        "at": event.at,
        "name": event.name,
        "client_id": event.client_id,
        "uid": event.uid,
        "grant_id": event.grant_id,
        "done_by": event.done_by,
        "data": msgspec.json.decode(event.data, type=dict[str, object]),
    }
