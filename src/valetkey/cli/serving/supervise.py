"""Supervision: the processes that answer, started in order, started again, stopped together.

Each child has one end of a socket pair. It waits there for `go`, says `prepared` and `ready`,
and ends when the other end closes: that is how no child outlives its parent, however that dies.
"""

import asyncio
import contextlib
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from valetkey.cli import say
from valetkey.cli.say import Exit
from valetkey.web import log

_GRACE = 15.0  # seconds for requests under way, before a child is killed
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 30.0
_STEADY = 60.0  # seconds after which an earlier crash is forgotten


@dataclass(frozen=True, slots=True)
class Server:
    """One server: the command of a child, the socket that all of them answer, how many.

    Two arguments are added to `command`: the number of the socket's descriptor and of the control
    channel's. The first child of each server is told to prepare, after those of earlier servers.
    """

    name: str
    command: tuple[str, ...]
    listening: socket.socket
    workers: int
    environment: Mapping[str, str]


class Place(NamedTuple):
    """Where a child stands: its server's number, and its own among that server's."""

    server: int
    worker: int


@dataclass(slots=True)
class Supervisor:
    """Runs servers until it is told to stop; `announce` is called once, when all are ready."""

    servers: Sequence[Server]
    announce: Callable[[], None]
    grace: float = _GRACE
    first_delay: float = _FIRST_DELAY
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _children: set[Process] = field(default_factory=set[Process])
    _prepared: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _were_ready: set[Place] = field(default_factory=set[Place])
    _code: int = Exit.OK

    async def run(self) -> int:
        """What the shell is to learn: 0 after a stop, a child's code if the start failed."""
        self._prepared = {server.name: asyncio.Event() for server in self.servers}
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        keepers = [asyncio.create_task(self._keep(place)) for place in self._places()]
        stopped = asyncio.create_task(self._stopping.wait())
        # A keeper ends first only if it failed in a way that nobody foresaw.
        await asyncio.wait({stopped, *keepers}, return_when=asyncio.FIRST_COMPLETED)
        self._stopping.set()
        await self._end(keepers)
        await stopped
        return self._code

    def stop(self) -> None:
        """Have `run` end; a second call does not wait for requests under way."""
        if self._stopping.is_set():
            # Asked twice: whoever asks does not want to wait.
            for child in self._children:
                _send(child, signal.SIGKILL)
        self._stopping.set()

    def _places(self) -> tuple[Place, ...]:
        return tuple(
            Place(number, worker)
            for number, server in enumerate(self.servers)
            for worker in range(server.workers)
        )

    async def _keep(self, place: Place) -> None:
        """Have one child there at all times."""
        loop = asyncio.get_running_loop()
        delay = self.first_delay
        while not self._stopping.is_set():
            began = loop.time()
            await self._live(place)
            if self._stopping.is_set():
                return
            if loop.time() - began > _STEADY:
                delay = self.first_delay
            name = self.servers[place.server].name
            log.error("worker.restarting", server=name, worker=place.worker, delay_seconds=delay)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _live(self, place: Place) -> None:
        """One child from birth to death."""
        server = self.servers[place.server]
        ours, theirs = socket.socketpair()
        with theirs:
            child = await asyncio.create_subprocess_exec(
                *server.command,
                str(server.listening.fileno()),
                str(theirs.fileno()),
                pass_fds=(server.listening.fileno(), theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                env=dict(server.environment),
                # Ctrl-C reaches a terminal's whole group; the parent alone decides what it means.
                process_group=0,
            )
        self._children.add(child)
        if self._stopping.is_set():
            _send(child, signal.SIGTERM)
        reader, writer = await asyncio.open_connection(sock=ours)
        talk = asyncio.create_task(self._talk(place, reader, writer))
        code = await child.wait()
        self._children.discard(child)
        # What it said last may still be on its way; its end of the channel is closed by now.
        await asyncio.wait({talk}, timeout=1)
        talk.cancel()
        writer.close()
        if place not in self._were_ready and not self._stopping.is_set():
            say.error(f"the {server.name} server did not start")
            self._code = code if code > 0 else Exit.FAILED
            self._stopping.set()
        elif place not in self._were_ready:
            # What failed first may have failed because of this one, whose code then says more.
            self._code = max(self._code, code)

    async def _talk(
        self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Tell a child when to go, and hear how far it is."""
        server = self.servers[place.server]
        await self._turn(server, prepares=place.worker == 0)
        with contextlib.suppress(ConnectionError):
            writer.write(b"go prepare\n" if place.worker == 0 else b"go\n")
            await writer.drain()
            while said := await reader.readline():
                if said == b"prepared\n":
                    self._prepared[server.name].set()
                elif said == b"ready\n":
                    self._arrived(place)

    async def _turn(self, server: Server, *, prepares: bool) -> None:
        # The resource server's credential is made when the authorization server prepares.
        for earlier in self.servers:
            if earlier is server and prepares:
                return
            await self._prepared[earlier.name].wait()
            if earlier is server:
                return

    def _arrived(self, place: Place) -> None:
        log.info("worker.ready", server=self.servers[place.server].name, worker=place.worker)
        news = place not in self._were_ready
        self._were_ready.add(place)
        if news and len(self._were_ready) == len(self._places()) and not self._stopping.is_set():
            self.announce()

    async def _end(self, keepers: Sequence[asyncio.Task[None]]) -> None:
        for child in self._children:
            _send(child, signal.SIGTERM)
        _, late = await asyncio.wait(keepers, timeout=self.grace)
        if late:
            log.error("worker.killed", workers=len(self._children))
            for child in self._children:
                _send(child, signal.SIGKILL)
            await asyncio.wait(late)
        for keeper in keepers:
            keeper.result()


def _send(child: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)
