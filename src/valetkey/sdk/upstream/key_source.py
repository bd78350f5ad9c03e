"""The public keys of the issuer: fetched rarely, once for all who wait, kept when it is away."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.refusal import Refused
from valetkey.sdk.fetch import Door, Unreachable

REST = seconds(10)
"""After a look that brought nothing new, until the next: strangers can invent names of keys."""

FRESH = seconds(300)
"""After so long the keys are fetched again, so that a key that was withdrawn is forgotten."""

_RETRY = seconds(1)  # while the issuer is away, no key is known at all, or keys are exchanged
_LOOK_EVERY = 1.0

Keep = Callable[[bytes], Awaitable[object]]
"""Where the key set is written whenever it changes, so that a restart does not need the issuer."""


class KeySource:
    """The keys of one issuer. As long as the set is the same, `keys` is the same object."""

    def __init__(
        self, url: str, fetch: Door, *, known: bytes = b"", keep: Keep | None = None
    ) -> None:
        """Fetch from `url`; begin with the document that was `known` before."""
        self._url = url
        self._fetch = fetch
        self._keep = keep
        self._document = b""
        self._keys: KeySet | None = None
        self._asked_at = Instant(0)
        self._heard_at = Instant(0)
        self._had_news = False
        self._question: asyncio.Task[bool] | None = None
        self._take(known)

    @property
    def keys(self) -> KeySet | None:
        """What is known; None if the issuer never answered."""
        return self._keys

    def is_sure(self) -> bool:
        """Whether the last look succeeded: only then is an unknown key a wrong key."""
        return self._keys is not None and self._heard_at >= self._asked_at

    async def look(self, now: Instant) -> bool:
        """Ask the issuer because a key is missing, if the last time was long enough ago.

        True if there is news. At most one question each 10 seconds (each second while the issuer
        does not answer, or after an answer that was news: an issuer in haste exchanges its keys
        more than once); everybody who comes meanwhile waits for the same answer.
        """
        if self._question is None:
            rest = REST if self.is_sure() and not self._had_news else _RETRY
            if 0 <= now - self._asked_at < rest:
                return False
            self._question = asyncio.get_running_loop().create_task(self._ask(now))
            self._question.add_done_callback(self._answered)
        # Shielded: the one who asked first may hang up without taking the answer from the others.
        return await asyncio.shield(self._question)

    async def follow(self, now: Callable[[], Instant]) -> None:
        """Fetch at once and then every five minutes, sooner while there is no answer; for ever."""
        while True:
            at = now()
            if not self.is_sure() or at - self._heard_at >= FRESH:
                await self.look(at)
            await asyncio.sleep(_LOOK_EVERY)

    def _answered(self, _: asyncio.Task[bool]) -> None:
        self._question = None

    async def _ask(self, now: Instant) -> bool:
        self._asked_at = now
        self._had_news = False
        try:
            answer = await self._fetch.get(self._url)
        except Unreachable:
            return False
        if answer.status != HTTPStatus.OK:
            return False
        if answer.body == self._document:
            self._heard_at = now
            return False
        if not self._take(answer.body):
            return False
        self._heard_at = now
        self._had_news = True
        if self._keep is not None:
            await self._keep(answer.body)
        return True

    def _take(self, document: bytes) -> bool:
        """Put `document` in place of the keys, unless it is no key set or an empty one."""
        if not document:
            return False
        try:
            # Another issuer may have keys for what we do not do (RFC 7517 section 5).
            keys = KeySet.parse(document, ignore_unknown=True)
        except Refused:
            return False
        if not len(keys):
            return False
        self._keys = keys
        self._document = document
        return True
