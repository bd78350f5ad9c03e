"""GET /oauth/revocations: tokens that a resource server must refuse despite a valid signature.

Entries are in order of time. A follower continues with the cursor it received. The newest minute
and a half is repeated every time, because a slow transaction may commit late and servers whose
clocks differ write out of order. As server-sent events, an entry is delivered within a second.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from valetkey.authorization.endpoints.client.request import ClientRefusal
from valetkey.authorization.endpoints.resource_server.identity import ResourceServerAuthentication
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.storage.tokens.revocations import RevocationRecord, RevokedKind
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.web.body import read_query
from valetkey.web.exchange import Request, Response, json_response

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


class FeedPage(Struct, frozen=True):
    """The entries after a cursor, the next cursor, and whether there are more."""

    cursor: str
    revocations: Sequence[RevocationRecord]
    more: bool
    at: Instant
    """The time from which entries may be repeated."""


Look = Callable[[str], Awaitable[FeedPage]]
"""Reads the page after a cursor. Raises Refused for an invalid cursor."""


class RevocationStreams:
    """The open streams of one process."""

    def __init__(self) -> None:
        """Start without streams."""
        self._open = 0

    async def open(self, cursor: str, look: Look) -> Response:
        """Stream the pages that `look` reads after `cursor`.

        Raises Refused (503 if there are too many).
        """
        if self._open >= MOST:
            raise Refused(_FULL)
        # Read before the response starts, so that an invalid cursor is refused.
        return Response(200, b"", _HEADERS, self._events(await look(cursor), look))

    async def _events(self, page: FeedPage, read: Look) -> AsyncGenerator[bytes]:
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


PAGE = 1_000
"""Maximum number of entries in one response."""

OVERLAP = 90
"""Seconds of entries that are repeated: clocks may differ by 60, a transaction may take 30."""

_CURSOR = re.compile(r"([0-9]{1,12})(?:\.([a-z]{1,10})\.([\x21-\x7e]{1,500}))?")


class RevocationsEndpoint:
    """The feed for the resource server or a declared API: one page, or a stream of events."""

    def __init__(
        self,
        store: Store,
        gate: ResourceServerAuthentication,
        refuse: ClientRefusal,
        now: Callable[[], Instant],
    ) -> None:
        """Authenticate with `gate` and read from `store`."""
        self._store = store
        self._gate = gate
        self._refuse = refuse
        self._now = now
        self._streams = RevocationStreams()

    async def __call__(self, request: Request) -> Response:
        """Return a page of at most 1,000 entries and the cursor of the next one.

        Callers that accept `text/event-stream` receive pages as they are written; they continue
        after `Last-Event-ID`.
        """
        try:
            look = partial(self._look, await self._gate.api(request))
            after = read_query(request.query or request.hidden_query).get("after") or ""
            if EVENT_STREAM in (request.headers.get("accept") or ""):
                resumed = request.headers.get("last-event-id")
                return await self._streams.open(after if resumed is None else resumed, look)
            page = await look(after)
        except Refused as refused:
            return self._refuse(request, refused.refusal)
        body = {"cursor": page.cursor, "revocations": page.revocations}
        return json_response(body, 200, (("cache-control", "no-store"),))

    async def _look(self, api: Api, cursor: str) -> FeedPage:
        at, kind, subject = _parse(cursor)
        # Taken before the table is read: later entries belong to the next page.
        now = self._now()

        def read(tx: Transaction) -> Sequence[RevocationRecord]:
            if api.is_default:
                return tx.revocations.page(at, kind, subject, PAGE)
            return tx.revocations.page_of_api(api, at, kind, subject, PAGE)

        records = await self._store.read(read)
        if len(records) == PAGE:
            last = records[-1]
            cursor = f"{last.revoked_at}.{last.kind}.{last.id}"
            return FeedPage(cursor, _for_follower(records), True, last.revoked_at)
        after = Instant(max(0, now - OVERLAP))
        return FeedPage(str(after), _for_follower(records), False, after)


def _for_follower(records: Sequence[RevocationRecord]) -> tuple[RevocationRecord, ...]:
    """Return the records for a follower: to an API, its own end is the end of everything."""
    return tuple(
        replace(each, kind=RevokedKind.ALL, id="all") if each.kind is RevokedKind.API else each
        for each in records
    )


def _parse(text: str) -> tuple[Instant, str, str]:
    if not text:
        return Instant(0), "", ""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "after must be a cursor that this feed gave",
            "revocations.cursor",
            "a cursor",
            "something else",
        )
    return Instant(int(match[1])), match[2] or "", match[3] or ""
