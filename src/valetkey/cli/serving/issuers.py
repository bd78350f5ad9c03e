"""The issuers of a folder in one worker: their applications, started, replaced and stopped apart.

Each has its own settings, database, keys, caches, queues and limits; they share the process, its
sockets and its event loop. One that cannot start answers 503 and is tried again.
"""

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from valetkey.cli.serving import folder
from valetkey.cli.serving.folder import (
    IssuerConfiguration,
    certificate_host,
    certificate_problems,
)
from valetkey.cli.serving.recheck import wrong_objects
from valetkey.cli.serving.vitals import WARN_EVERY, CertificateMonitor
from valetkey.config.agreement import missing_files, servers
from valetkey.config.load import OperatorErrors
from valetkey.config.paths import certificate_files, process_path, write_note
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.pace import PACE, Pace
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import ISSUER, SYSTEM
from valetkey.web import log
from valetkey.web.connection.incoming_request import IncomingRequest
from valetkey.web.hosts import send_misdirected, send_unavailable
from valetkey.web.listen import Certificates
from valetkey.web.router import RoutedApp

Prepare = Callable[[Settings], Awaitable[None]]
Build = Callable[[Settings, Callable[[], None]], Awaitable[RoutedApp]]
"""Builds an application; the callback replaces it by one with the settings of now."""

_AT_ONCE = 4  # starts
_A_ROUND = 4  # requests of an issuer that begin in one round of the event loop
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds before a failed start is tried again
_PATIENCE = 10.0  # seconds for which a request waits for the start of its issuer
_FINISH = 10.0  # seconds for the requests of an application that is replaced or stopped


class Turns:
    """Begins the requests of several issuers in turn, so that none of them takes the event loop.

    In one round of the event loop at most `_A_ROUND` requests of each issuer begin; others wait.
    How long a request waits for those of another issuer therefore does not depend on their number.
    """

    def __init__(self) -> None:
        """Begin without requests."""
        self._begun: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def next(self, issuer: str) -> "asyncio.Future[None] | None":
        """Take a turn: None if the request may begin at once, or what it has to wait for."""
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._round, loop)
        begun = self._begun.setdefault(issuer, 0)
        if begun < _A_ROUND:
            self._begun[issuer] = begun + 1
            return None
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(issuer, deque()).append(turn)
        return turn

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = {}
        for issuer, waiting in list(self._waiting.items()):
            begun = 0
            while waiting and begun < _A_ROUND:
                # The client of a request that was cancelled is gone.
                if not (turn := waiting.popleft()).done():
                    turn.set_result(None)
                    begun += 1
            self._begun[issuer] = begun
            if not waiting:
                del self._waiting[issuer]
        if self._begun:
            loop.call_soon(self._round, loop)


class _Life:
    """One application from its start to its end."""

    def __init__(self, app: RoutedApp, settings: Settings, pace: Pace, turns: Turns) -> None:
        self.app = app
        self._turns = turns
        self._pace = pace
        self.limit = settings.limits.requests
        self.over = asyncio.Event()
        self._at_work: set[IncomingRequest] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def answer(self, incoming: IncomingRequest) -> None:
        """Answer a request, unless `limits.requests` of this issuer wait for their response."""
        if incoming.path not in self.app.vital:
            self._pace.requested()
        full = len(self._at_work) >= self.limit and incoming.path not in self.app.vital
        if full and sum(map(_is_at_work, self._at_work)) >= self.limit:
            log.throttled("warning", "request.turned_away", "limits.requests is reached")
            send_unavailable(incoming)
            return
        self._at_work.add(incoming)
        self._idle.clear()
        try:
            if incoming.path not in self.app.vital and (turn := self._turns.next(ISSUER.get())):
                await turn
            await self.app.answer(incoming)
        finally:
            self._at_work.discard(incoming)
            if not self._at_work:
                self._idle.set()

    async def end(self) -> None:
        """Wait until its requests are answered, for at most ten seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), _FINISH)


def _is_at_work(request: IncomingRequest) -> bool:
    # A stream may last for hours and costs little while idle; a client that is slow to send must
    # take no place.
    return not (request.streaming or request.more)


class Issuer:
    """One issuer: the application that answers for it, and the start of the next one."""

    def __init__(self, configuration: IssuerConfiguration, server: str, turns: Turns) -> None:
        """Start nothing yet."""
        self.configuration = configuration
        self._turns = turns
        self._server = server
        self.wanted = False
        """Whether a request waits for its start."""
        self.due: float | None = 0.0
        """The event loop's time of the next start; None if none is due."""
        self.failures = 0
        self.life: _Life | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._waiting = 0
        self.host = ""
        """The Host of its server; of a configuration that names none, the one before."""
        self.certificate_host = ""
        """The host for which it has a certificate, "" without TLS; kept in the same way."""
        self.certificate: tuple[Path, Path] | None = None
        self._started: asyncio.Future[None] | None = None

    @property
    def name(self) -> str:
        """The name of its configuration."""
        return self.configuration.name

    async def answer(self, incoming: IncomingRequest) -> None:
        """Answer one request, in the context of this issuer."""
        ISSUER.set(self.name)
        if incoming.certificate_host != self.certificate_host:
            send_misdirected(incoming)
            return
        if self.life is None:
            await self._wait()
        if self.life is None:
            send_unavailable(incoming)
        else:
            await self.life.answer(incoming)

    async def _wait(self) -> None:
        """Wait for a start that has not failed yet."""
        settings = self.configuration.settings
        if settings is None or self.failures or self._waiting >= settings.limits.requests:
            return
        self.wanted = True
        self._started = self._started or asyncio.get_running_loop().create_future()
        self._waiting += 1
        try:
            await asyncio.wait([self._started], timeout=_PATIENCE)
        finally:
            self._waiting -= 1

    async def start(self, begin: Callable[[Settings], Awaitable[RoutedApp]]) -> bool:
        """Start the application that `begin` makes; return whether it answers from now on.

        The one before answers until then, and stays if the new one cannot start.
        """
        ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._live(begin, ready))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        succeeded = await ready
        self.failures = 0 if succeeded else self.failures + 1
        if self._started is not None:
            self._started.set_result(None)
            self._started = None
        return succeeded

    async def _live(
        self, begin: Callable[[Settings], Awaitable[RoutedApp]], ready: "asyncio.Future[bool]"
    ) -> None:
        ISSUER.set(self.name)
        pace = Pace()
        PACE.set(pace)
        try:
            settings = _checked(self.configuration, self._server)
            app = await begin(settings)
            async with app.running():
                await self._serve(_Life(app, settings, pace, self._turns), ready)
            log.info("issuer.stopped")
        except (OperatorError, DatabaseUnavailable) as reason:
            log.error("issuer.failed", reason=str(reason))
        except Exception as bug:  # noqa: BLE001 - a fault of one issuer must not end the others
            log.error("issuer.failed", bug)
        finally:
            if not ready.done():
                ready.set_result(False)

    async def _serve(self, life: _Life, ready: "asyncio.Future[bool]") -> None:
        if self._stopped:
            return
        before, self.life = self.life, life
        if before is not None:
            before.over.set()
        log.info("issuer.ready")
        ready.set_result(True)
        await life.over.wait()
        await life.end()

    async def stop(self) -> None:
        """Stop its application, after the requests that it has."""
        self._stopped = True
        life, self.life = self.life, None
        if life is not None:
            life.over.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _checked(configuration: IssuerConfiguration, server: str) -> Settings:
    """Return usable settings. Raises OperatorError."""
    settings = configuration.settings
    if settings is None:
        raise OperatorError(configuration.problem)
    if problems := (*missing_files(settings, ("authorization",)), *wrong_objects(settings)):
        raise OperatorErrors(str(configuration.file), problems)
    for problem in certificate_problems(settings, (server,)):
        raise OperatorError(problem)
    return settings


class Issuers:
    """All issuers of a folder for one server: `authorization` or `resource`."""

    def __init__(
        self,
        directory: Path,
        server: str,
        prepare: Prepare,
        build: Build,
        may_start: Callable[[Settings], bool],
    ) -> None:
        """Read the folder. Raises OperatorError if that is not possible.

        One that may not start yet is looked at again each second.
        """
        self._place = directory
        self._server = server
        self._prepare = prepare
        self._build = build
        self._may_start = may_start
        self._issuers: dict[str, Issuer] = {}
        self._hosts: dict[bytes, Issuer] = {}
        self._changed = asyncio.Event()
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._settled = False
        self._monitors: dict[str, CertificateMonitor] = {}
        self.certificates = Certificates(self._observe)
        """The certificates of those that have TLS."""
        self._ports: dict[int, bool] = {}
        self._turns = Turns()
        # Before the worker is ready: the supervisor passes SIGHUP on from then on.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._read_again)
        self.read()
        self._ports = {
            port: tls
            for issuer_settings in self.settings
            for port, tls in self._port(issuer_settings)
        }

    def has_tls(self, port: int) -> bool:
        """Return whether those that listen at this port have TLS."""
        return self._ports.get(port, False)

    @property
    def settings(self) -> Sequence[Settings]:
        """The settings of all issuers that have usable ones."""
        every = (issuer.configuration.settings for issuer in self._issuers.values())
        return tuple(settings for settings in every if settings is not None)

    def find(self, host: bytes) -> Issuer | None:
        """Return the issuer of a Host in lower case."""
        issuer = self._hosts.get(host)
        if issuer is not None and issuer.life is None:
            # It is started next.
            self._changed.set()
        return issuer

    def read(self) -> None:
        """Read the folder, and start, replace and stop what changed. Raises OperatorError."""
        old_configurations = {name: issuer.configuration for name, issuer in self._issuers.items()}
        read = map(self._fitting, folder.read(self._place, old_configurations))
        configurations = {configuration.name: configuration for configuration in read}
        for name in old_configurations.keys() - configurations.keys():
            task = asyncio.ensure_future(self._issuers.pop(name).stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
        for name, configuration in configurations.items():
            if configuration.settings is not None and self._server not in configuration.hosts:
                continue
            issuer = self._issuers.get(name)
            if issuer is None:
                self._issuers[name] = Issuer(configuration, self._server, self._turns)
            elif issuer.failures or issuer.configuration.mark != configuration.mark:
                issuer.configuration, issuer.due, issuer.failures = configuration, 0.0, 0
        hosts: dict[bytes, Issuer] = {}
        files: dict[str, tuple[Path, Path]] = {}
        for issuer in self._issuers.values():
            self._certify(issuer, files)
        self.certificates.use(files)
        # A host that a configuration names now goes before one that it named before.
        for issuer in sorted(self._issuers.values(), key=self._names_host):
            issuer.host = issuer.configuration.hosts.get(self._server, issuer.host)
            if issuer.host:
                hosts[issuer.host.encode("latin-1", "replace")] = issuer
        self._hosts = hosts
        self._changed.set()

    def _port(self, settings: Settings) -> Iterator[tuple[int, bool]]:
        """Yield the port of an issuer, and whether it has TLS there."""
        for name, part in servers(settings):
            if name == self._server:
                tls = certificate_files(settings, part) is not None
                yield int(part.listen.rpartition(":")[2]), tls

    def _fitting(self, configuration: IssuerConfiguration) -> IssuerConfiguration:
        """Return a configuration, without its settings if its port was opened for other ones."""
        for port, tls in (
            () if configuration.settings is None else self._port(configuration.settings)
        ):
            if self._ports.get(port, tls) != tls:
                problem = f"{self._server}.listen: with or without TLS at port {port}: restart"
                return replace(configuration, settings=None, problem=problem)
        return configuration

    def _certify(self, issuer: Issuer, files: dict[str, tuple[Path, Path]]) -> None:
        """Add the files of an issuer with TLS; those before if it has no usable configuration."""
        settings = issuer.configuration.settings
        if settings is not None:
            part = dict(servers(settings))[self._server]
            issuer.certificate_host = certificate_host(settings, part)
            issuer.certificate = certificate_files(settings, part)
        if issuer.certificate is not None:
            files[issuer.certificate_host] = issuer.certificate

    def _observe(self, host: str, file: Path) -> None:
        """Note the certificate that is served for a host, for its issuer."""
        for issuer in self._issuers.values():
            if issuer.certificate_host == host:
                at_work = ISSUER.set(issuer.name)
                monitor = self._monitors.setdefault(issuer.name, CertificateMonitor(SYSTEM.now))
                monitor.served(file)
                ISSUER.reset(at_work)

    async def watch_certificates(self) -> None:
        """Warn once a day of certificates that end, until cancelled."""
        while True:
            await asyncio.sleep(WARN_EVERY)
            for name, monitor in self._monitors.items():
                at_work = ISSUER.set(name)
                if name in self._issuers:
                    monitor.warn()
                ISSUER.reset(at_work)

    async def run(self) -> None:
        """Start issuers, those that requests wait for first, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            idle = [i for i in self._issuers.values() if i.name not in self._starting]
            due = [issuer for issuer in idle if issuer.due is not None]
            now = [issuer for issuer in due if issuer.due is not None and issuer.due <= loop.time()]
            now.sort(key=lambda issuer: not issuer.wanted)
            for issuer in now[: _AT_ONCE - len(self._starting)]:
                issuer.due = None
                self._starting[issuer.name] = asyncio.create_task(self._start(issuer))
            later = [i.due for i in due if i.due is not None and i.due > loop.time()]
            pause = max(0.0, min(later) - loop.time()) if later else None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)

    async def close(self) -> None:
        """Stop all of them."""
        for task in self._starting.values():
            task.cancel()
        stops = (issuer.stop() for issuer in self._issuers.values())
        await asyncio.gather(
            *self._starting.values(), *stops, *self._stopping, return_exceptions=True
        )

    async def _start(self, issuer: Issuer) -> None:
        clock = asyncio.get_running_loop().time
        try:
            settings = issuer.configuration.settings
            if settings is not None and not self._may_start(settings):
                issuer.due = clock() + _FIRST_PAUSE
            elif not await issuer.start(partial(self._begin, issuer)):
                pause = _FIRST_PAUSE * 2 ** min(issuer.failures - 1, 10)
                issuer.due = clock() + min(pause, _LONGEST_PAUSE)
        finally:
            del self._starting[issuer.name]
            self._changed.set()
        if not self._starting and all(
            folder_issuer.due != 0.0 for folder_issuer in self._issuers.values()
        ):
            self._settle()

    def _settle(self) -> None:
        """Return memory to the system (glibc only): starts leave 40 % of what they used."""
        if not self._settled:
            # Objects of now stay: examining those of hundreds of issuers would take a second.
            self._settled = True
            gc.collect()
            gc.freeze()
        if sys.platform == "linux":
            with suppress(AttributeError):
                ctypes.CDLL(None).malloc_trim(0)

    async def _begin(self, issuer: Issuer, settings: Settings) -> RoutedApp:
        await self._prepare(settings)
        app = await self._build(settings, partial(self._restart, issuer))
        server = dict(servers(settings))[self._server]
        # The supervisor, which adopts its workers: `valetkey reload` looks for it here.
        write_note(process_path(settings, server), os.getppid())
        return app

    def _names_host(self, issuer: Issuer) -> bool:
        return self._server in issuer.configuration.hosts

    def _restart(self, issuer: Issuer) -> None:
        issuer.due = 0.0
        self._changed.set()

    def _read_again(self) -> None:
        try:
            self.read()
        except OperatorError as error:
            log.error("reload.failed", reason=str(error))
