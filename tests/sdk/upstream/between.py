"""Stands between a follower and its issuer, and treats streams as bad networks do."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Between:
    """Passes everything on, until it is told to hang or to cut connections that stream."""

    host: str
    port: int
    address: str = ""
    hangs: bool = False
    """Streams stay open, and nothing comes through them."""
    streams: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    connections: int = 0
    signs: int = 0
    """Pieces of streams that were passed on."""

    def cut(self) -> None:
        """Break every stream now."""
        for writer in tuple(self.streams):
            writer.transport.abort()

    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        ours, theirs = await asyncio.open_connection(self.host, self.port)

        async def ask() -> None:
            while data := await reader.read(65_536):
                if b"text/event-stream" in data:
                    self.streams.add(writer)
                # The issuer answers to its own name only.
                named = self.address.removeprefix("http://").encode()
                theirs.write(data.replace(named, f"{self.host}:{self.port}".encode()))

        async def answer() -> None:
            while data := await ours.read(65_536):
                if not (self.hangs and writer in self.streams):
                    writer.write(data)
                    self.signs += writer in self.streams

        tasks = [asyncio.create_task(ask()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.streams.discard(writer)
            for stream in (writer, theirs):
                stream.transport.abort()


@asynccontextmanager
async def between(host: str, port: int) -> AsyncGenerator[Between]:
    """One that listens on loopback while this lasts."""
    it = Between(host, port)
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    it.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield it
    finally:
        server.close()
        for task in it.tasks:
            task.cancel()
        await asyncio.gather(*it.tasks, return_exceptions=True)
        await asyncio.sleep(0)
