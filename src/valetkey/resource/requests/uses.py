"""What apps really use of what they may: noted in memory, told to the authorization server.

Whoever looks at their connected apps there sees which permissions an app never needed. Noting
waits for nothing and writes nothing; what a process that dies had not told yet is lost.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from http import HTTPStatus

import msgspec

from valetkey.kernel.moment import Instant, hours
from valetkey.sdk import Caller, Credential
from valetkey.sdk.fetch import Fetcher, Unreachable

EVERY = 60.0
"""Seconds between two reports."""

MOST = 20_000
"""Uses that wait to be told; of what comes beyond, the next report knows nothing."""

_AT_ONCE = 500
_SIGN_OF_LIFE = hours(1)
_CLOSES_WITHIN = 1.0


class Uses:
    """Uses of one process. Each pair of grant and scope is told once a minute at most."""

    def __init__(
        self, url: str, fetch: Fetcher, credential: Credential, watches: Sequence[str]
    ) -> None:
        """Report to `url`. `watches` names every scope whose use is noted here."""
        self._url = url
        self._fetch = fetch
        self._credential = credential
        self._watches = tuple(watches)
        self._seen: dict[tuple[str, str], Instant] = {}
        self._heard_at = Instant(0)

    def note(self, caller: Caller, needed: Sequence[str], now: Instant) -> None:
        """This caller did something for which any one of `needed` is enough."""
        grant = caller.grant_id
        if grant is None:
            return
        granted = caller.scope.names
        for name in needed:
            if name in granted:
                seen, key = self._seen, (grant, name)
                if len(seen) < MOST or key in seen:
                    seen[key] = now
                return

    async def run(self, now: Callable[[], Instant]) -> None:
        """Report each minute, for ever."""
        while True:
            await self.report(now())
            await asyncio.sleep(EVERY)

    async def close(self, now: Instant) -> None:
        """Tell what waits, if that can be done within a second."""
        if self._seen:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSES_WITHIN):
                    await self.report(now)

    async def report(self, now: Instant) -> bool:
        """Tell what waits; False where the authorization server did not take it.

        What it did not take is told the next time.
        """
        if not self._seen and now - self._heard_at < _SIGN_OF_LIFE:
            return True
        waiting, self._seen = self._seen, {}
        pairs = list(waiting.items())
        for start in range(0, max(1, len(pairs)), _AT_ONCE):
            told = False
            try:
                told = await self._tell(pairs[start : start + _AT_ONCE])
            finally:
                # Also when this was cancelled; a use that is told twice is the same use.
                if not told:
                    self._seen = {**dict(pairs[start:]), **self._seen}
            if not told:
                return False
        self._heard_at = now
        return True

    async def _tell(self, pairs: Sequence[tuple[tuple[str, str], Instant]]) -> bool:
        uses = [{"grant_id": grant, "scope": name, "at": at} for (grant, name), at in pairs]
        body = msgspec.json.encode({"watches": self._watches, "uses": uses})
        try:
            answer = await self._fetch.post_json(self._url, body, self._credential)
        except Unreachable:
            return False
        return answer.status == HTTPStatus.NO_CONTENT
