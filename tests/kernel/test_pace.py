"""The pace of background work."""

import asyncio

import pytest

from tests.support.wait import CEILING
from valetkey.kernel import pace


def test_request_ends_the_pause_of_its_idle_issuer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # It is idle from the start, and would look again in an hour.
    monkeypatch.setattr(pace, "_AWAKE", -1.0)

    async def scenario() -> None:
        mine, other = pace.Pace(), pace.Pace()
        waiting = asyncio.ensure_future(mine.pause(3_600))
        others = asyncio.ensure_future(other.pause(3_600))
        await asyncio.sleep(0)
        mine.requested()
        await asyncio.wait_for(waiting, CEILING)
        assert not others.done()
        others.cancel()

    asyncio.run(scenario())
