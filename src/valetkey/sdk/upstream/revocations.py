"""Revocations of unexpired tokens, followed at the issuer's feed within seconds."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from valetkey.kernel.moment import Instant, Lifetime
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Credential, Fetcher, HttpClient, Unreachable

EVERY = 1.0
"""Seconds between two requests when polling."""

SILENT_FOR = 2.5
"""Seconds without data after which a stream is abandoned and the feed is polled."""

_LOOKS = 10  # after a stream was abandoned, before streaming is tried again

_PRUNE_EVERY = 60
_KEEP_EVERY = 60
_PAGES = 1_000  # in one poll: enough to catch up after an outage, and a bound for an endless feed


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ended by an empty line. A keep-alive has no `data`."""

    id: str
    data: bytes


async def read_events(lines: AsyncGenerator[bytes]) -> AsyncGenerator[Event]:
    """Parse the lines of a stream into events; comments and unknown fields are skipped."""
    async with aclosing(lines) as these:
        id_, data = "", bytearray()
        async for line in these:
            if not line:
                yield Event(id_, bytes(data))
                data.clear()
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data += b"\n" + value if data else value
            elif name == b"id" and b"\0" not in value:
                id_ = value.decode("utf-8", "replace")


class Kind(StrEnum):
    """The kind of object that a revocation applies to."""

    GRANT = "grant"
    TOKEN = "token"
    CLIENT = "client"
    USER = "user"
    ALL = "all"
    """Every token issued until then: a backup of the issuer's database was restored."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """One entry of the feed; relevant until `expires_at`, when its last token has expired."""

    kind: Kind
    id: str
    revoked_at: Instant
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class Page:
    """One response of the feed: the entries after the requested cursor, and the next cursor."""

    cursor: str
    revocations: tuple[Revocation, ...]


NOTHING = Page("", ())
"""The initial state of a follower."""

Keep = Callable[[Page], Awaitable[bool]]
"""Persists what a follower learned, so that a restart does not lose it.

Returns whether that worked; if not, the follower passes these entries again with the next ones.
"""


class Revocations:
    """The revocations still relevant, by grant, token and client, and those of all tokens.

    Followed by an event stream if the issuer has one and the network lets it through, otherwise by
    polling. While the issuer does not answer, the known revocations apply.
    """

    def __init__(
        self,
        url: str,
        fetch: HttpClient,
        credential: Credential,
        *,
        cached: Page = NOTHING,
        keep: Keep | None = None,
    ) -> None:
        """Follow the feed at `url`, starting with what was `cached` before."""
        self._url = url
        self._fetch = fetch
        self._credential = credential
        self._keep = keep
        self._stream = fetch.stream if isinstance(fetch, Fetcher) else None
        self._cursor = cached.cursor
        self._grants: dict[str, Revocation] = {}
        self._tokens: dict[str, Revocation] = {}
        self._clients: dict[str, Revocation] = {}
        self._users: dict[str, Revocation] = {}
        self._all: dict[str, Revocation] = {}
        self._pruned_at = Instant(0)
        self._kept_at = Instant(0)
        self._unsaved: list[Revocation] = []
        self.heard_at = Instant(0)
        """When the feed last answered; 0 for never."""
        self._add(cached.revocations)

    def covers(self, caller: Caller) -> bool:
        """Return whether the caller's token, grant, client or user, or everything is revoked."""
        if caller.token_id in self._tokens or caller.grant_id in self._grants:
            return True
        if self._all and any(
            caller.issued_at <= revocation.revoked_at for revocation in self._all.values()
        ):
            return True
        ended = self._clients.get(caller.client_id) if self._clients else None
        # Tokens that the client got after it was enabled again are valid.
        if ended is not None and caller.issued_at <= ended.revoked_at:
            return True
        if not self._users or caller.grant_id is None:
            return False
        ended = self._users.get(caller.subject)
        return ended is not None and caller.issued_at <= ended.revoked_at

    def is_known(self, now: Instant, max_age: Lifetime) -> bool:
        """Return whether the feed answered less than `max_age` ago."""
        return now - self.heard_at < max_age

    async def poll(self, now: Instant) -> bool:
        """Poll once, to the end of the feed; return False if the issuer did not answer."""
        self._prune(now)
        for _ in range(_PAGES):
            page = await self._fetch_page()
            if page is None:
                return False
            behind = page.cursor != self._cursor and bool(page.revocations)
            await self._apply(page, now)
            if not behind:
                break
        self.heard_at = now
        return True

    async def follow(self, now: Callable[[], Instant]) -> None:
        """Follow revocations until cancelled, within 5 seconds while the issuer is reachable.

        A stream delivers them within a second; when it breaks or falls silent, the feed is polled.
        """
        try:
            while True:
                # Poll at least once each time: a stream that delivers nothing must not hide
                # revocations for long.
                heard = await self._listen(now)
                for _ in range(1 if heard else _LOOKS):
                    await self.poll(now())
                    await asyncio.sleep(EVERY)
        finally:
            # Cancelled between taking entries and storing them: a restart must not forget them.
            if self._unsaved:
                await self._write(self._cursor, now())

    async def _listen(self, now: Callable[[], Instant]) -> bool:
        """Follow the stream until it ends; return whether it delivered anything."""
        if self._stream is None:
            return False
        heard = False
        lines = self._stream(self._url, self._credential, self._cursor)
        try:
            async with aclosing(read_events(lines)) as events:
                while True:
                    async with asyncio.timeout(SILENT_FOR):
                        event = await anext(events, None)
                    if event is None:
                        return heard
                    at = now()
                    self._prune(at)
                    if event.data:
                        await self._apply(msgspec.json.decode(event.data, type=Page), at)
                    elif event.id:
                        await self._apply(Page(event.id, ()), at)
                    self.heard_at = at
                    heard = True
        except (Unreachable, TimeoutError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return heard

    async def _apply(self, page: Page, now: Instant) -> None:
        self._unsaved += self._add(page.revocations)
        # An outdated cursor only repeats entries: it need not be written every second.
        if self._unsaved or now - self._kept_at >= _KEEP_EVERY:
            await self._write(page.cursor, now)
        self._cursor = page.cursor

    async def _write(self, cursor: str, now: Instant) -> None:
        # Never store a cursor without all entries before it.
        if self._keep is None or await self._keep(Page(cursor, tuple(self._unsaved))):
            self._unsaved.clear()
            self._kept_at = now

    async def _fetch_page(self) -> Page | None:
        url = f"{self._url}?after={quote(self._cursor, safe='')}"
        try:
            answer = await self._fetch.get(url, self._credential)
        except Unreachable:
            return None
        if answer.status == HTTPStatus.BAD_REQUEST and self._cursor:
            # The issuer's database was restored from a backup: known entries stay, and reading
            # restarts from the beginning.
            self._cursor = ""
            return None
        if answer.status != HTTPStatus.OK:
            return None
        try:
            return msgspec.json.decode(answer.body, type=Page)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def _add(self, revocations: Sequence[Revocation]) -> list[Revocation]:
        """Store the entries; return those that are new."""
        news: list[Revocation] = []
        for revocation in revocations:
            entries = self._entries(revocation.kind)
            # A client may be disabled twice; the later revocation covers more tokens, for longer.
            before = entries.get(revocation.id)
            if before is None or before.revoked_at < revocation.revoked_at:
                entries[revocation.id] = revocation
                news.append(revocation)
        return news

    def _entries(self, kind: Kind) -> dict[str, Revocation]:
        match kind:
            case Kind.GRANT:
                return self._grants
            case Kind.TOKEN:
                return self._tokens
            case Kind.CLIENT:
                return self._clients
            case Kind.USER:
                return self._users
            case Kind.ALL:
                return self._all

    def _prune(self, now: Instant) -> None:
        if now - self._pruned_at < _PRUNE_EVERY:
            return
        self._pruned_at = now
        every = (self._grants, self._tokens, self._clients, self._users, self._all)
        for entries in every:
            for expired in [key for key, entry in entries.items() if entry.expires_at <= now]:
                del entries[expired]
