"""Count which scopes apps really use, and report them to the authorization server.

The authorization server shows users which permissions a connected app never needed. Counting blocks
nothing and writes nothing; a process that dies loses what it had not reported yet.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from http import HTTPStatus

import msgspec

from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.tracing import RequestSample, RequestSamples
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Credential, Fetcher, Unreachable

EVERY = 60.0
"""Seconds between two reports."""

MOST = 20_000
"""Maximum number of unreported uses; further ones are dropped until the next report."""

_AT_ONCE = 500
_SIGN_OF_LIFE = hours(1)
_CLOSES_WITHIN = 1.0


class Uses:
    """The scope uses of one process. Each pair of grant and scope is reported once a minute."""

    def __init__(
        self,
        url: str,
        fetch: Fetcher,
        credential: Credential,
        watches: Callable[[], Collection[str]],
        samples: RequestSamples | None = None,
    ) -> None:
        """Report to `url`. `watches` returns every scope whose use is counted here.

        `samples` of requests are reported as well.
        """
        self._url = url
        self._fetch = fetch
        self._credential = credential
        self._watches = watches
        self._seen: dict[tuple[str, str], Instant] = {}
        self._samples = RequestSamples(0) if samples is None else samples
        self._heard_at = Instant(0)

    def record(self, caller: Caller, needed: Sequence[str], now: Instant) -> None:
        """Count a use of the scopes in `needed`, of which any one suffices; "" is no scope."""
        grant = caller.grant_id
        if grant is None:
            return
        granted = caller.scope.names
        for name in needed:
            if not name or name in granted:
                seen, key = self._seen, (grant, name)
                if len(seen) < MOST or key in seen:
                    seen[key] = now
                return

    async def run(self, now: Callable[[], Instant]) -> None:
        """Report every minute, until cancelled."""
        while True:
            await self.report(now())
            await asyncio.sleep(EVERY)

    async def close(self, now: Instant) -> None:
        """Report the rest if that takes less than a second."""
        if self._seen or self._samples:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSES_WITHIN):
                    await self.report(now)

    async def report(self, now: Instant) -> bool:
        """Report queued uses; return False if the authorization server did not accept them.

        Rejected uses are reported again the next time.
        """
        if not self._seen and not self._samples and now - self._heard_at < _SIGN_OF_LIFE:
            return True
        waiting, self._seen = self._seen, {}
        pairs = list(waiting.items())
        samples = self._samples.drain(_AT_ONCE)
        for start in range(0, max(1, len(pairs)), _AT_ONCE):
            is_logged = False
            try:
                is_logged = await self._report(pairs[start : start + _AT_ONCE], samples)
            finally:
                # Also after cancellation; reporting a use twice has no further effect.
                if not is_logged:
                    self._seen = {**dict(pairs[start:]), **self._seen}
                    self._samples.give_back(samples)
            if not is_logged:
                return False
            samples = ()
        self._heard_at = now
        return True

    async def _report(
        self,
        pairs: Sequence[tuple[tuple[str, str], Instant]],
        samples: Sequence[RequestSample],
    ) -> bool:
        uses = [{"grant_id": grant, "scope": name, "at": at} for (grant, name), at in pairs]
        report: dict[str, object] = {"watches": list(self._watches()), "uses": uses}
        if samples:
            report["requests"] = samples
        body = msgspec.json.encode(report)
        try:
            answer = await self._fetch.post_json(self._url, body, self._credential)
        except Unreachable:
            return False
        return answer.status == HTTPStatus.NO_CONTENT
