"""A worker process of one server: its start, and its end together with the supervisor.

Each server has processes of its own, so that an attacker who compromises one gains neither the keys
nor the database of the other.
"""

import asyncio
import faulthandler
import gc
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_CORE, RLIMIT_NOFILE, getrlimit, setrlimit
from time import monotonic
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from valetkey.cli import say
from valetkey.cli.interrupts import ignore, raise_once
from valetkey.cli.say import Exit
from valetkey.cli.serving import scrape, trace_export
from valetkey.cli.serving.acme import challenge_file
from valetkey.cli.serving.acme import prepare as prepare_certificate
from valetkey.cli.serving.acme import renew as renew_certificate
from valetkey.cli.serving.folder import process_settings
from valetkey.cli.serving.issuers import Issuers
from valetkey.cli.serving.plan import METRICS, Scraping
from valetkey.cli.serving.vitals import CertificateMonitor, ProcessMonitor, open_descriptors
from valetkey.config.agreement import servers
from valetkey.config.environment import environment
from valetkey.config.load import load
from valetkey.config.paths import (
    certificate_files,
    credential_path,
    monitoring_token,
    uses_acme,
)
from valetkey.config.settings import OTHER_DESCRIPTORS, ServerSettings, Settings
from valetkey.database.engine import NOTICES, DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.web import listen, log
from valetkey.web.connection.gate import Limits
from valetkey.web.hosts import Hosts
from valetkey.web.router import RoutedApp

_AGAIN = b"a"


class Fork(NamedTuple):
    """A fork: the descriptor of its channel, and whether it replaces a worker that was ready."""

    channel: int
    again: bool


def await_fork(control: int) -> Fork | None:
    """Fork for each order on channel `control`; return in each fork with its own channel.

    An order is one byte, sent with the worker's end of its channel. Return None when the supervisor
    closes its end of the channel for orders. The worker is forked twice, so
    that it is orphaned and adopted by the supervisor, which collects it (see `Plan.take_over`).
    """
    orders = socket.socket(fileno=control)
    # Modules loaded by now stay and are shared: the garbage collector need not examine them.
    gc.collect()
    gc.freeze()
    while True:
        order, channels, _, _ = socket.recv_fds(orders, 1, 1)
        if not order:
            return None
        # If the system is out of processes, the channel closes: the supervisor orders again later.
        between = _forked()
        if between == 0:
            if _forked() != 0:
                os._exit(0)
            orders.close()
            return Fork(channels[0], order == _AGAIN)
        for channel in channels:
            os.close(channel)
        if between is not None:
            os.waitpid(between, 0)


def _forked() -> int | None:
    """Fork; return None if the system is out of processes or memory."""
    try:
        return os.fork()
    except OSError:
        return None


NAME = "valetkey-worker"
"""The process name of a worker."""

_OBJECTS = 20_000  # live objects allocated before the youngest are collected: a few MB
_ATTEMPT_EVERY = 1.0  # seconds
_FEWEST = 16
_OF_ISSUER = 24  # descriptors that each of several issuers opens: databases, logs, requests
_LAST_RESORT = 20.0  # seconds a worker may take to end after its supervisor did

T = TypeVar("T")


def run_worker(
    name: str,
    arguments: Sequence[str],
    prepare: Callable[[Settings], Awaitable[None]],
    build: Callable[[Settings, int], Awaitable[RoutedApp]],
    build_issuer: Callable[[int, Settings, Callable[[], None]], Awaitable[RoutedApp]],
) -> int:
    """Fork for each worker; in the fork prepare if ordered to, then serve until SIGTERM.

    `name` is the server's section. `arguments`: configuration file or "", or the folder of
    configurations whose issuers are served, each built by `build_issuer`; descriptors of its
    sockets joined by commas, and the descriptor of the channel on which forks are ordered. Returns
    the exit code.
    """
    file, listening, control = arguments
    _protect_memory_and_files()
    own = await_fork(int(control))
    if own is None:
        return Exit.OK
    # Not the default action, so that exit handlers still run.
    raise_once(lambda: SystemExit(Exit.OK), (signal.SIGTERM, signal.SIGINT, listen.HAND_OVER))
    # Shown by `ps` and `top`, to tell a worker from its fork server.
    with suppress(OSError):
        Path("/proc/self/comm").write_text(NAME, encoding="ascii")
    # Shows where a crash in native code happened, on standard error.
    faulthandler.enable()
    channel = SupervisorChannel(socket.socket(fileno=own.channel))
    channel.send_message(b"born %d\n" % os.getpid())
    channel.watch()
    try:
        if file and Path(file).is_dir():
            _work_for_issuers(name, Path(file), listening, channel, prepare, build_issuer)
        else:
            _work(name, Path(file) if file else None, listening, channel, prepare, build)
    except OperatorError as error:
        # The process ends anyway; if it were stopped because another failed, its exit code would be
        # 0.
        ignore((signal.SIGTERM,))
        _explain(name, own, str(error))
        return Exit.INVALID
    except DatabaseUnavailable as reason:
        _explain(name, own, f"the database cannot be used: {reason}")
        return Exit.FAILED
    except Exception as bug:
        if not own.again:
            raise
        log.error("worker.failed", bug, server=name)
        return Exit.FAILED
    return Exit.OK


def _work(
    name: str,
    file: Path | None,
    listening: str,
    channel: "SupervisorChannel",
    prepare: Callable[[Settings], Awaitable[None]],
    build: Callable[[Settings, int], Awaitable[RoutedApp]],
) -> None:
    settings = load(file, environment())
    log.set_up(settings.log.level, settings.log.format)
    NOTICES.begin(log.throttled, settings.log.slow_statement / 1000)
    worker, prepares = channel.wait_to_go()
    stop_traces = trace_export.begin(settings, name)
    if prepares:
        listen.run(_retry_until_available(settings, lambda: _prepare(settings, channel, prepare)))
    server = settings.authorization if name == "authorization" else settings.resource
    ready = _reporting(settings, name, worker, channel)
    built = partial(build, settings, worker)
    listen.run(_answer(settings, server, listening, ready, built, renews=worker == 0))
    stop_traces()


def _work_for_issuers(
    name: str,
    folder: Path,
    listening: str,
    channel: "SupervisorChannel",
    prepare: Callable[[Settings], Awaitable[None]],
    build: Callable[[int, Settings, Callable[[], None]], Awaitable[RoutedApp]],
) -> None:
    settings = process_settings()
    log.set_up(settings.log.level, settings.log.format)
    NOTICES.begin(log.throttled, settings.log.slow_statement / 1000)
    worker, prepares = channel.wait_to_go()
    stop_traces = trace_export.begin(settings, name)
    if prepares:
        # Each issuer is prepared when it starts.
        channel.send_message(b"prepared\n")

    def may_start(settings: Settings) -> bool:
        # The authorization server of this issuer makes the credential.
        has_credential = settings.resource.credential_text is not None
        return name == "authorization" or has_credential or credential_path(settings).exists()

    async def answer() -> None:
        issuers = Issuers(folder, name, prepare, partial(build, worker), may_start)
        trusted = {
            network
            for issuer_settings in issuers.settings
            for section, part in servers(issuer_settings)
            if section == name
            for network in part.trusted_proxies
        }
        app = Hosts(
            issuers.find,
            runtime=SYSTEM,
            trusted_proxies=trusted,
            background=(issuers.run, issuers.watch_certificates),
            on_close=issuers.close,
        )
        limits = _limits(settings, len(issuers.settings))
        beside = asyncio.create_task(ProcessMonitor(SYSTEM.now, open_descriptors).watch())
        gc.set_threshold(_OBJECTS, 10, 10)
        sockets = [socket.socket(fileno=int(number)) for number in listening.split(",")]
        await listen.serve(
            app,
            sockets=sockets,
            certificates=issuers.certificates,
            clear=[sock for sock in sockets if not issuers.has_tls(sock.getsockname()[1])],
            # Each issuer has a limit of its own; a connection has one request at a time.
            limits=replace(limits, requests=limits.connections),
            drain=settings.serving.drain,
            on_ready=_reporting(settings, name, worker, channel),
        )
        beside.cancel()

    listen.run(answer())
    stop_traces()


def _reporting(
    settings: Settings, name: str, worker: int, channel: "SupervisorChannel"
) -> Callable[[], None]:
    """Answer scrapes from now on; return what to call when the worker is ready."""
    address = environment().get(METRICS)
    scraping = Scraping.read(address) if address else None
    if scraping is not None:
        scrape.begin(scraping, monitoring_token(settings))

    def ready() -> None:
        if scraping is not None:
            scrape.report(scraping, name, worker)
        log.info("worker.ready", server=name, worker=worker)
        channel.send_message(b"ready\n")

    return ready


def _explain(name: str, own: Fork, reason: str) -> None:
    """Say why the worker ends: in the log, or at the first start to the operator."""
    if own.again:
        log.error("worker.failed", server=name, reason=reason)
    else:
        say.error(f"{name}: {reason}")


def _protect_memory_and_files() -> None:
    # Neither a core dump nor a new file may expose keys to other users.
    setrlimit(RLIMIT_CORE, (0, 0))
    os.umask(0o077)


async def _prepare(
    settings: Settings, channel: "SupervisorChannel", prepare: Callable[[Settings], Awaitable[None]]
) -> None:
    await prepare(settings)
    channel.send_message(b"prepared\n")


async def _retry_until_available(settings: Settings, start: Callable[[], Awaitable[T]]) -> T:
    """Run `start`; retry each second while the database is unavailable, logging that once.

    Raises DatabaseUnavailable after `database.start_timeout`.
    """
    longest = settings.database.start_timeout
    until = monotonic() + longest
    is_logged = False
    while True:
        try:
            return await start()
        except DatabaseUnavailable as reason:
            if monotonic() >= until:
                raise
            if not is_logged:
                is_logged = True
                log.warning("database.awaited", reason=str(reason), longest_seconds=longest)
        await asyncio.sleep(_ATTEMPT_EVERY)


def _limits(settings: Settings, issuers: int = 0) -> Limits:
    """Return a worker's limits, reduced so that its connections fit the open file limit."""
    others = OTHER_DESCRIPTORS + issuers * _OF_ISSUER
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft != hard:
        # The soft limit is kept low by default for programs that use select().
        setrlimit(RLIMIT_NOFILE, (hard, hard))
    connections = settings.limits.connections
    room = connections if hard == RLIM_INFINITY else max(_FEWEST, hard - others)
    if room < connections:
        log.warning("limits.connections", set=connections, used=room, open_files=hard)
    return Limits(
        connections=min(connections, room),
        connections_per_address=settings.limits.connections_per_address,
        requests=settings.limits.requests,
        patience=settings.limits.patience,
    )


async def _answer(
    settings: Settings,
    server: ServerSettings,
    listening: str,
    ready: Callable[[], None],
    build: Callable[[], Awaitable[RoutedApp]],
    *,
    renews: bool,
) -> None:
    prepare_certificate(settings, server)
    files = certificate_files(settings, server)
    app = await _retry_until_available(settings, build)
    beside = [asyncio.create_task(ProcessMonitor(SYSTEM.now, open_descriptors).watch())]
    certificate = CertificateMonitor(SYSTEM.now)
    if files:
        beside.append(asyncio.create_task(certificate.watch()))
    if renews and uses_acme(settings, server):
        beside.append(asyncio.create_task(renew_certificate(settings, server)))
    # Objects alive now stay: exclude them from collection. Requests leave hardly any cycles, so
    # collecting every 700 objects would find nothing.
    gc.freeze()
    gc.set_threshold(_OBJECTS, 10, 10)
    await listen.serve(
        app,
        sockets=[socket.socket(fileno=int(number)) for number in listening.split(",")],
        tls_certificate=files[0] if files else None,
        tls_key=files[1] if files else None,
        tls_challenge=challenge_file(settings, server),
        limits=_limits(settings),
        drain=settings.serving.drain,
        on_ready=ready,
        on_certificate=certificate.served,
    )
    for task in beside:
        task.cancel()


class SupervisorChannel(Struct):
    """The channel to the supervisor; it closes when the supervisor ends."""

    socket: socket.socket
    _go: threading.Event = field(default_factory=threading.Event)
    _told: bytes = b""

    def watch(self) -> None:
        """Start listening, and end this process when the supervisor has ended."""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def wait_to_go(self) -> tuple[int, bool]:
        """Wait for `go`; return this worker's number and whether it is to prepare."""
        self._go.wait()
        _, number, *prepare = self._told.split()
        return int(number), bool(prepare)

    def send_message(self, word: bytes) -> None:
        """Send a message to the supervisor."""
        # If the supervisor has ended, the watching thread ends this process.
        try:
            self.socket.sendall(word)
        except OSError:
            return

    def _listen(self) -> None:
        # On a thread, because a stuck event loop must not keep an orphan alive.
        while message := _received(self.socket):
            self._told = message
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
