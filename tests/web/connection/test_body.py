"""Bodies: however many are on their way, what they hold is bounded, and small ones find room."""

import asyncio

import pytest

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.connection.incoming_request import (
    SMALL,
    BodyMemory,
    ClientDisconnected,
    Message,
    read_body,
)
from valetkey.web.exchange import NO_HEADERS

_LIMIT = 4 * SMALL


class _Sender:
    """Sends a piece of so many bytes at a time, and waits for `last` before the last byte."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._sent = False
        self.last = asyncio.Event()

    async def __call__(self) -> Message:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": b"x" * self._size, "more_body": True}
        await self.last.wait()
        return {"type": "http.request", "body": b"y", "more_body": False}


def test_large_bodies_share_the_memory_limit_and_small_ones_are_exempt() -> None:
    async def story() -> None:
        room = BodyMemory(2 * SMALL)
        slow = [_Sender(2 * SMALL - 1) for _ in range(2)]
        waiting = [asyncio.create_task(read_body(NO_HEADERS, s, _LIMIT, room)) for s in slow]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as caught:
            await read_body(NO_HEADERS, _Sender(2 * SMALL), _LIMIT, room)
        assert caught.value.refusal.code is ErrorCode.TEMPORARILY_UNAVAILABLE
        assert caught.value.refusal.retry_after
        small = _Sender(SMALL - 1)
        small.last.set()
        assert len(await read_body(NO_HEADERS, small, SMALL, room)) == SMALL
        for sender in slow:
            sender.last.set()
        assert [len(body) for body in await asyncio.gather(*waiting)] == [2 * SMALL] * 2
        assert room.left == 2 * SMALL

    asyncio.run(story())


def test_memory_of_aborted_and_refused_bodies_is_released() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def endless() -> Message:
        return {"type": "http.request", "body": b"x" * SMALL, "more_body": True}

    async def story() -> None:
        room = BodyMemory(10 * SMALL)
        with pytest.raises(ClientDisconnected):
            await read_body(NO_HEADERS, gone, _LIMIT, room)
        with pytest.raises(Refused):
            await read_body(NO_HEADERS, endless, _LIMIT, room)
        slow = asyncio.create_task(read_body(NO_HEADERS, _Sender(3 * SMALL), _LIMIT, room))
        await asyncio.sleep(0)
        assert room.left == 8 * SMALL
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert room.left == 10 * SMALL

    asyncio.run(story())
