"""One process that answers for one server: how it begins, and how it ends with its parent.

Each server has processes of its own, so that who breaks into one holds neither the other's keys
nor its database.
"""

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_CORE, RLIMIT_NOFILE, getrlimit, setrlimit
from time import monotonic
from typing import TypeVar

from valetkey.cli import say
from valetkey.cli.say import Exit
from valetkey.cli.serving import scrape
from valetkey.cli.serving.fork_server import await_fork
from valetkey.cli.serving.plan import METRICS
from valetkey.config.environment import environment
from valetkey.config.load import load
from valetkey.config.paths import certificate_files, monitoring_token
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.refusal import Mistake
from valetkey.web import listen, log
from valetkey.web.connection.gate import Limits
from valetkey.web.router import App

NAME = "valetkey-worker"
"""The name of a worker's process."""

_OBJECTS = 20_000  # made and not yet gone, before the youngest are looked through: a few MB
_ATTEMPT_EVERY = 1.0  # seconds
DESCRIPTORS = 128
"""Open files beside those of connections: databases, logs, outgoing requests."""

_FEWEST = 16
_LAST_RESORT = 20.0  # seconds a child may take to end after its parent did

T = TypeVar("T")


def work(
    name: str,
    arguments: Sequence[str],
    prepare: Callable[[Settings], Awaitable[None]],
    build: Callable[[Settings], Awaitable[App]],
) -> int:
    """Fork for each worker; in it prepare if told so, then answer until SIGTERM.

    `name` is the server's section. Arguments: configuration file or "", descriptors of its
    sockets, joined by commas, and of the channel on which forks are ordered. The number is for the
    shell.
    """
    file, listening, control = arguments
    _keep_to_itself()
    own = await_fork(int(control))
    if own is None:
        return Exit.OK
    for number in (signal.SIGTERM, signal.SIGINT, listen.HAND_OVER):
        signal.signal(number, _end)
    # What `ps` and `top` show, to tell it from the process that it was forked from.
    with suppress(OSError):
        Path("/proc/self/comm").write_text(NAME, encoding="ascii")
    channel = Channel(socket.socket(fileno=own))
    channel.say(b"born %d\n" % os.getpid())
    channel.watch()
    try:
        settings = load(Path(file) if file else None, environment())
        log.set_up(settings.log.level, settings.log.format)
        worker, prepares = channel.wait_to_go()
        if prepares:
            listen.run(_patiently(settings, lambda: _prepare(settings, channel, prepare)))
        server = settings.authorization if name == "authorization" else settings.resource

        scraping = environment().get(METRICS)
        if scraping:
            scrape.begin(scraping, name, worker, monitoring_token(settings))

        def ready() -> None:
            log.info("worker.ready", server=name, worker=worker)
            channel.say(b"ready\n")

        listen.run(_answer(settings, server, listening, ready, build))
    except Mistake as mistake:
        # It ends anyway; told to end because another did not start, it would seem all right.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say.error(f"{name}: {mistake}")
        return Exit.MISTAKE
    except DatabaseUnavailable as reason:
        say.error(f"{name}: the database cannot be used: {reason}")
        return Exit.FAILED
    return Exit.OK


def _keep_to_itself() -> None:
    # Neither a core dump nor a new file may show keys to others (security 39).
    setrlimit(RLIMIT_CORE, (0, 0))
    os.umask(0o077)


def _end(*_: object) -> None:
    # Not the default, so that what runs at exit still runs.
    raise SystemExit(Exit.OK)


async def _prepare(
    settings: Settings, channel: "Channel", prepare: Callable[[Settings], Awaitable[None]]
) -> None:
    await prepare(settings)
    channel.say(b"prepared\n")


async def _patiently(settings: Settings, start: Callable[[], Awaitable[T]]) -> T:
    """Do what needs the database; again each second while that does not answer, and say so once.

    Raises DatabaseUnavailable after `database.start_timeout`.
    """
    longest = settings.database.start_timeout
    until = monotonic() + longest
    told = False
    while True:
        try:
            return await start()
        except DatabaseUnavailable as reason:
            if monotonic() >= until:
                raise
            if not told:
                told = True
                log.warning("database.awaited", reason=str(reason), longest_seconds=longest)
        await asyncio.sleep(_ATTEMPT_EVERY)


def _limits(settings: Settings) -> Limits:
    """The limits of a worker, whose connections fit the descriptors that it may open."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft != hard:
        # The lower one is for programs that use select().
        setrlimit(RLIMIT_NOFILE, (hard, hard))
    wanted = settings.limits.connections
    room = wanted if hard == RLIM_INFINITY else max(_FEWEST, hard - DESCRIPTORS)
    if room < wanted:
        log.warning("limits.connections", set=wanted, used=room, open_files=hard)
    return Limits(
        connections=min(wanted, room),
        connections_per_address=settings.limits.connections_per_address,
        requests=settings.limits.requests,
        patience=settings.limits.patience,
    )


async def _answer(
    settings: Settings,
    server: ServerSettings,
    listening: str,
    ready: Callable[[], None],
    build: Callable[[Settings], Awaitable[App]],
) -> None:
    files = certificate_files(settings, server)
    app = await _patiently(settings, lambda: build(settings))
    watch = asyncio.create_task(scrape.watch_loop())
    # What is here now stays: nobody needs to look through it again for what could go. And requests
    # leave hardly any cycles behind, so that to look for them every 700 objects finds nothing.
    gc.freeze()
    gc.set_threshold(_OBJECTS, 10, 10)
    await listen.serve(
        app,
        sockets=[socket.socket(fileno=int(number)) for number in listening.split(",")],
        tls_certificate=files[0] if files else None,
        tls_key=files[1] if files else None,
        limits=_limits(settings),
        drain=settings.serving.drain,
        on_ready=ready,
    )
    watch.cancel()


@dataclass(slots=True)
class Channel:
    """The way to the parent and back; its end is the parent's end."""

    socket: socket.socket
    _go: threading.Event = field(default_factory=threading.Event)
    _told: bytes = b""

    def watch(self) -> None:
        """Listen from now on, and end this process when the parent is gone."""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def wait_to_go(self) -> tuple[int, bool]:
        """Wait for the parent's word: this child's number, and whether it is to prepare."""
        self._go.wait()
        _, number, *prepare = self._told.split()
        return int(number), bool(prepare)

    def say(self, word: bytes) -> None:
        """Tell the parent."""
        # A parent that is gone hears nothing; the watching thread deals with that.
        try:
            self.socket.sendall(word)
        except OSError:
            return

    def _listen(self) -> None:
        # A thread, because a stuck event loop must not keep an orphan alive.
        while said := _received(self.socket):
            self._told = said
            self._go.set()
        # Without draining: the next supervisor cannot listen while this process does.
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(_LAST_RESORT)
        os._exit(Exit.FAILED)


def _received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(64)
    except OSError:
        return b""
