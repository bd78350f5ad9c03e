"""Caches answers about access tokens until something that tokens depend on changes."""

import asyncio
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.storage.revision import token_state
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Response

T = TypeVar("T")

MOST_KNOWN = 4_096
"""Maximum number of cached tokens; the oldest is evicted first."""

_LONGEST_BODY = 2_048

_LONGEST = 5
"""Seconds for which an answer is used at most: the documented delay of revocations."""


class CachedAnswer(Struct, Generic[T]):
    """What is known of a token, with the response that was built from it for one client.

    The response may be sent again only to that client: the same object, not an equal one.
    """

    known: T
    client: Client | None = None
    response: Response | None = None

    def response_to(self, client: Client) -> Response | None:
        """Return the response that was built for this client, if it was kept."""
        return self.response if self.client is client else None

    def keep(self, client: Client, response: Response) -> None:
        """Keep a response for this client, in place of another's, unless its body is large."""
        if len(response.body) <= _LONGEST_BODY:
            self.client, self.response = client, response


class SharedRefresh:
    """Coalesces concurrent refreshes: each caller is served by one that began after it arrived.

    So no caller gets a result older than its request, and at most two refreshes are running or
    waiting.
    """

    __slots__ = ("_next", "_running")

    def __init__(self) -> None:
        """Start idle."""
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def run(self, look: Callable[[], Coroutine[object, object, None]]) -> None:
        """Return when a refresh that began after this call has ended; raise what it raised."""
        if self._next is None:
            self._next = asyncio.create_task(self._turn(self._running, look))
        # Shielded: cancelling one caller must not cancel the shared refresh.
        await asyncio.shield(self._next)

    async def _turn(
        self,
        before: "asyncio.Task[None] | None",
        look: Callable[[], Coroutine[object, object, None]],
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        await look()


class _Entry(NamedTuple, Generic[T]):
    answer: T
    kept_at: Instant


class AnswerCache(Generic[T]):
    """Answers about tokens, valid until an event that `affects_tokens` (docs/decisions/0025).

    Take `number` after `find` returned None and before the database is asked; an answer that is
    kept under a number was true when that number was read, or later. Keyed by digest: the tokens
    themselves are not kept. The caller checks what depends on the time.
    """

    __slots__ = ("_answers", "_mark", "_refresh", "_store", "number")

    def __init__(self, store: Store) -> None:
        """Start empty."""
        self._store = store
        self._refresh = SharedRefresh()
        self._mark: bytes | None = None
        self._answers: dict[bytes, _Entry[T]] = {}
        self.number = -1

    async def find(self, token: str, now: Instant) -> T | None:
        """Return the cached answer for this token, if nothing that affects tokens happened since.

        Asks the database only for a token that is known: concurrent callers share one query, and
        none is needed where the engine tells that nothing was committed.
        """
        digest = digest_of(token)
        if self.number < 0 or self._fresh(digest, now):
            await self._compare()
        entry = self._fresh(digest, now)
        metrics.CACHE.add("answers", "miss" if entry is None else "hit")
        return None if entry is None else entry.answer

    def add(self, token: str, number: int, answer: T, now: Instant) -> None:
        """Add an answer that was read after `number` was taken."""
        if number != self.number:
            return
        digest = digest_of(token)
        # Deleted first: a replaced entry would keep its place in the order of eviction.
        self._answers.pop(digest, None)
        while len(self._answers) >= MOST_KNOWN:
            del self._answers[next(iter(self._answers))]
        self._answers[digest] = _Entry(answer, now)

    def _fresh(self, digest: bytes, now: Instant) -> "_Entry[T] | None":
        entry = self._answers.get(digest)
        return entry if entry is not None and 0 <= now - entry.kept_at < _LONGEST else None

    async def _compare(self) -> None:
        mark = self._store.engine.mark()
        if mark is None:
            await self._refresh.run(self._read)
        elif mark != self._mark:
            await self._read()
            self._mark = mark

    async def _read(self) -> None:
        number = await self._store.read_one(lambda tx: token_state(tx.db))
        if number != self.number:
            self.number, self._answers = number, {}


def digest_of(token: str) -> bytes:
    """Return the key under which what is known of a token is cached."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
