"""The revocation feed as server-sent events, delivered within a second from any cursor on.

Each event is a page of the feed with its cursor as `id`. A heartbeat each second shows followers
that the stream is alive.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.storage.tokens.revocations import RevocationRecord
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Response

EVENT_STREAM = "text/event-stream"

MOST = 64
"""Maximum number of streams in one process; further followers poll."""

_EVERY = 0.5  # seconds between two reads of the table, whichever process wrote to it
_BEAT = 2  # reads between two heartbeats
_LOOKS = 600  # then the follower reconnects and authenticates again
_HEADERS = (
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-store, no-transform"),
    # nginx would otherwise buffer events.
    ("x-accel-buffering", "no"),
)
_FULL = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "too many follow this feed already; poll it instead",
    "revocations.streams",
    f"at most {MOST} streams",
    "one more",
    retry_after=60,
)


class Page(Struct, frozen=True):
    """The entries after a cursor, the next cursor, and whether there are more."""

    cursor: str
    revocations: Sequence[RevocationRecord]
    more: bool
    at: Instant
    """From when on entries may be repeated."""


Look = Callable[[str], Awaitable[Page]]
"""Reads the page after a cursor. Raises Refused for an invalid cursor."""


class RevocationStreams:
    """The streams of one process."""

    def __init__(self) -> None:
        """Begin without any."""
        self._open = 0

    async def open(self, cursor: str, look: Look) -> Response:
        """Stream the pages that `look` reads after `cursor`.

        Raises Refused (503 if there are too many).
        """
        if self._open >= MOST:
            raise Refused(_FULL)
        # Read before the response starts, so that an invalid cursor is refused.
        return Response(200, b"", _HEADERS, self._events(await look(cursor), look))

    async def _events(self, page: Page, read: Look) -> AsyncGenerator[bytes]:
        self._open += 1
        try:
            yield _event(page.cursor, page.revocations)
            told = {(each.kind, each.id): each.revoked_at for each in page.revocations}
            for look in range(1, _LOOKS):
                if not page.more:
                    await asyncio.sleep(_EVERY)
                page = await read(page.cursor)
                # The overlap is repeated by every page; a stream sends it once.
                news = [e for e in page.revocations if told.get((e.kind, e.id)) != e.revoked_at]
                told |= {(each.kind, each.id): each.revoked_at for each in news}
                told = {key: at for key, at in told.items() if at >= page.at}
                if news:
                    yield _event(page.cursor, news)
                elif look % _BEAT == 0:
                    yield f": alive\nid: {page.cursor}\n\n".encode()
        except (DatabaseUnavailable, Overloaded):
            return
        finally:
            self._open -= 1


def _event(cursor: str, revocations: Sequence[RevocationRecord]) -> bytes:
    body = msgspec.json.encode({"cursor": cursor, "revocations": revocations})
    # JSON contains no raw line break, so one data line holds it.
    return b"event: revocations\nid: %b\ndata: %b\n\n" % (cursor.encode(), body)
