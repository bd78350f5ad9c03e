"""The feed of revocations as server-sent events: told within a second, from any cursor on.

Each event is a page of the feed with its cursor as `id`. Between them comes a sign of life each
second, so that whoever hears nothing knows that the stream is dead.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from valetkey.authorization.storage.tokens.revocations import RevocationRecord
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Response

EVENT_STREAM = "text/event-stream"

MOST = 64
"""Streams at a time in one process; who comes later may poll."""

_EVERY = 0.5  # seconds between two looks at the table, whoever wrote to it
_BEAT = 2  # looks between two signs of life
_LOOKS = 600  # then the follower comes again, and shows its credential again
_HEADERS = (
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-store, no-transform"),
    # nginx would keep events until a buffer is full.
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


@dataclass(frozen=True, slots=True)
class Page:
    """What came after a cursor, the next cursor, and whether more waits behind it."""

    cursor: str
    revocations: Sequence[RevocationRecord]
    more: bool
    at: Instant
    """From when on entries may be told again."""


Look = Callable[[str], Awaitable[Page]]
"""Reads the page after a cursor. Raises Refused for what is no cursor."""


class RevocationStreams:
    """The streams of one process."""

    def __init__(self, look: Look) -> None:
        """Read pages by `look`."""
        self._look = look
        self._open = 0

    async def open(self, cursor: str) -> Response:
        """A stream from `cursor` on. Raises Refused (503 when there are too many)."""
        if self._open >= MOST:
            raise Refused(_FULL)
        # Looked at before anything is promised: what is no cursor is refused.
        return Response(200, b"", _HEADERS, self._events(await self._look(cursor)))

    async def _events(self, page: Page) -> AsyncGenerator[bytes]:
        self._open += 1
        try:
            yield _event(page.cursor, page.revocations)
            told = {(each.kind, each.id): each.revoked_at for each in page.revocations}
            for look in range(1, _LOOKS):
                if not page.more:
                    await asyncio.sleep(_EVERY)
                page = await self._look(page.cursor)
                # The overlap repeats itself each time; on a stream once is enough.
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
    # JSON has no line break of its own, so that one data line holds it.
    return b"event: revocations\nid: %b\ndata: %b\n\n" % (cursor.encode(), body)
