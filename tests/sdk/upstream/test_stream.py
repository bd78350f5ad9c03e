"""A stream of events from an issuer that says what it likes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.sdk.issuer import SECRET
from tests.support.wait import until
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import LARGEST_ANSWER, Credential, Fetcher, Unreachable
from valetkey.sdk.upstream.revocations import EVERY, Revocations

CREDENTIAL = Credential("resource-server", Secret(SECRET))
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n"
EMPTY = b'{"cursor":"0","revocations":[]}'
NEWS = (
    b'data: {"cursor":"1","revocations":'
    b'[{"kind":"token","id":"at_1","revoked_at":1,"expires_at":9000000000}]}\n\n'
)


@dataclass
class Feed:
    """Answers every wish for a stream with `stream`, then hangs up; polls find nothing."""

    stream: bytes
    url: str = ""
    heads: list[str] = field(default_factory=list[str])
    opened: list[float] = field(default_factory=list[float])
    """When each stream was asked for."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if "text/event-stream" in head:
            self.opened.append(asyncio.get_running_loop().time())
            writer.write(self.stream)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(EMPTY) + EMPTY)
        writer.close()

    @property
    def streams(self) -> list[str]:
        """What those sent who wished for a stream."""
        return [head.lower() for head in self.heads if "text/event-stream" in head]


@asynccontextmanager
async def feed(stream: bytes) -> AsyncGenerator[tuple[Feed, Fetcher]]:
    """A feed on loopback, and a door to it."""
    it = Feed(stream)
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    it.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        async with Fetcher() as fetch:
            yield it, fetch
    finally:
        server.close()
        await asyncio.sleep(0)


async def lines(fetch: Fetcher, url: str, credential: Credential | None = None) -> list[bytes]:
    """All lines of a stream."""
    return [line async for line in fetch.stream(url, credential, "7")]


def test_lines_are_returned_unchanged_until_the_stream_ends() -> None:
    async def story() -> None:
        async with feed(OK + b"a: 1\r\n\nb\n\nunfinished") as (it, fetch):
            assert await lines(fetch, it.url) == [b"a: 1", b"", b"b", b""]
            assert await lines(fetch, it.url, CREDENTIAL)
            without, with_credential = it.streams
            assert "authorization" not in without
            assert "authorization: basic " in with_credential
            assert "last-event-id: 7\r\n" in without

    asyncio.run(story())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 X\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 302 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
        b"nonsense",
        OK + b"x" * (LARGEST_ANSWER + 1),
        OK.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n4\r\na\n\n\n\r\n"),
    ],
)
def test_response_that_is_no_event_stream_is_unreachable(answer: bytes) -> None:
    async def story() -> None:
        async with feed(answer) as (it, fetch):
            with pytest.raises(Unreachable):
                await lines(fetch, it.url)

    asyncio.run(story())


def test_ended_stream_is_reopened_after_a_pause() -> None:
    async def story() -> None:
        async with feed(OK + b": alive\n\n" + NEWS) as (it, fetch):
            revocations = Revocations(it.url, fetch, CREDENTIAL)
            await _follow(revocations, lambda: len(it.opened) >= 3)
            caller = Caller("1", "printer", Scope(), "at_1", None, Instant(1), Instant(9))
            assert revocations.covers(caller)
            assert all(later - sooner >= EVERY for sooner, later in pairwise(it.opened))

    asyncio.run(story())


@pytest.mark.parametrize("stream", [b"data: {}\n\n", b"data: \xff\n\n", b"data: " + b"[" * 9_000])
def test_stream_with_an_invalid_page_is_replaced_by_polling(stream: bytes) -> None:
    async def story() -> None:
        async with feed(OK + stream + b"\n\n") as (it, fetch):
            revocations = Revocations(it.url, fetch, CREDENTIAL)
            await _follow(revocations, lambda: len(it.heads) >= 3)
            assert revocations.heard_at == 100
            assert len(it.streams) == 1

    asyncio.run(story())


async def _follow(revocations: Revocations, enough: Callable[[], bool]) -> None:
    task = asyncio.create_task(revocations.follow(lambda: Instant(100)))
    await until(enough)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
