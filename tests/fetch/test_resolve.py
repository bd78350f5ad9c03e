"""Lookups: what hangs keeps nobody else waiting."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

import pytest

from tests.support.wait import CEILING, until_found
from valetkey.fetch.address import AT_ONCE_SITE, Lookups, resolve_by_system


@dataclass
class Hanging:
    """A resolver that never finds what is below evil.example until it is let go."""

    asked: list[str] = field(default_factory=list[str])
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, host: str, _: int, /) -> Sequence[str]:
        self.asked.append(host)
        if host.endswith("evil.example"):
            await self.let_go.wait()
            raise OSError("nobody answers")
        return ["192.0.2.7"]


def test_system_lookup_does_not_wait_for_the_default_thread_pool() -> None:
    free = Event()

    async def story() -> None:
        others = [asyncio.create_task(asyncio.to_thread(free.wait)) for _ in range(100)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(CEILING):
                assert await resolve_by_system("127.0.0.1", 443) == ["127.0.0.1"]
        finally:
            free.set()
            await asyncio.gather(*others)

    asyncio.run(story())


def test_hanging_lookups_of_one_site_are_bounded() -> None:
    async def story() -> None:
        resolve = Hanging()
        lookups = Lookups(resolve)
        for number in range(AT_ONCE_SITE):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await lookups.find(f"a{number}.evil.example", 443)
        with pytest.raises(OSError, match="do not return"):
            await lookups.find("one-more.evil.example", 443)
        assert len(resolve.asked) == AT_ONCE_SITE
        assert await lookups.find("app.example", 443) == ["192.0.2.7"]
        # What comes back makes room again.
        resolve.let_go.set()

        async def has_room() -> bool:
            with pytest.raises(OSError, match=r"do not return|nobody answers") as failed:
                await lookups.find("one-more.evil.example", 443)
            return "nobody answers" in str(failed.value)

        await until_found(has_room)

    asyncio.run(story())


def test_callers_share_one_lookup_that_survives_cancellation_of_one() -> None:
    async def story() -> None:
        resolve = Hanging()
        lookups = Lookups(resolve)
        both = [asyncio.create_task(lookups.find("a.evil.example", 443)) for _ in range(2)]
        await asyncio.sleep(0)
        both[0].cancel()
        resolve.let_go.set()
        with pytest.raises(OSError, match="nobody answers"):
            await both[1]
        assert resolve.asked == ["a.evil.example"]

    asyncio.run(story())
