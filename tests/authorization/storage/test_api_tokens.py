"""Tokens of the admin API as they are stored: ended once, remembered a while, gone with people."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.background.maintenance import SWEEPS
from valetkey.authorization.storage.search import END
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days


def test_expired_api_token_is_kept_for_ninety_days(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await caller(it, lifetime=days(1))

        def sweep(tx: Transaction, at: int) -> int:
            now = Instant(it.clock.now + at)
            for sweeper in SWEEPS:
                sweeper(tx, now)
            return len(tx.api_tokens.page(END.at, END.id, 10))

        assert await it.write(lambda tx: sweep(tx, days(90))) == 1
        assert await it.write(lambda tx: sweep(tx, days(91))) == 0

    run(tmp_path, story)


def test_last_use_of_an_api_token_is_recorded_once_a_minute(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        one = await caller(it)
        start = it.clock.now
        for forward, noted in ((0, start), (59, start), (1, start + 60)):
            it.clock.forward(forward)
            assert (await one.call("GET", "/token")).status == 200
            tokens = await it.read(lambda tx: tx.api_tokens.page(END.at, END.id, 1))
            assert tokens[0].last_used_at == noted

    run(tmp_path, story)


def test_only_one_of_many_concurrent_calls_ends_the_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await caller(it)
        (token,) = await it.read(lambda tx: tx.api_tokens.page(END.at, END.id, 10))
        ended = await asyncio.gather(
            *(it.write(lambda tx: tx.api_tokens.end(token.id, it.clock.now)) for _ in range(16))
        )
        assert ended.count(True) == 1
        assert await it.read(lambda tx: tx.api_tokens.count_live(ADA, it.clock.now)) == 0

    run(tmp_path, story)
