"""Serve an App over HTTP or TLS until it is stopped; also a server in a thread for tests."""

import asyncio
import contextlib
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self, cast

import uvicorn
import uvloop
from msgspec import Struct

from valetkey.kernel.refusal import OperatorError
from valetkey.web import log
from valetkey.web.connection.bind import BACKLOG, bind, listen
from valetkey.web.connection.gate import Gate, Limits
from valetkey.web.protocol import HttpProtocol
from valetkey.web.router import RoutedApp

_AT_ONCE = 64  # connections accepted before the event loop runs anything else
_RETRY = 1.0  # seconds until the next attempt after no file descriptor was free


ACME = ("acme-tls/1",)
"""The application protocol by which an authority asks for its challenge (RFC 8737 section 3)."""

_LONGEST_HELLO = 5 + (1 << 14)  # bytes: one TLS record
_HELLO_AGAIN = 0.01  # seconds until an incomplete ClientHello is looked at again


class Challenge(Struct, frozen=True):
    """The challenge of an authority: pending while the file exists, shown with this context."""

    file: Path
    context: Callable[[], ssl.SSLContext]


class TlsListener:
    """Accepts on one socket and hands over each connection once its TLS handshake is complete.

    An event loop reports a connection only after the handshake. Without a limit before it, clients
    that never complete a handshake could use up the process's file descriptors.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        gate: Gate,
        make: Callable[[], HttpProtocol],
        challenge: Challenge | None = None,
    ) -> None:
        """Start accepting on the running event loop."""
        self._sock = sock
        self._context = context
        self._gate = gate
        self._make = make
        self._challenge = challenge
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._listen()

    def accept_no_more(self) -> None:
        """Accept what waits already, then close the socket; handshakes in progress continue."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            for accepted, peer in _waiting(self._sock):
                self._welcome(accepted, peer)
            self._sock.close()
        if self._retry is not None:
            self._retry.cancel()

    def close(self) -> None:
        """Stop accepting, and abort handshakes that are not complete."""
        self.accept_no_more()
        for handshake in self._handshakes:
            handshake.cancel()

    def _listen(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                cause = failure.strerror or type(failure).__name__
                log.throttled("error", "connection.not_accepted", cause)
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(_RETRY, self._listen)
                return
            self._welcome(accepted, peer)

    def _welcome(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        connection = self._make()
        connection.address = peer[0]
        if not self._gate.admit(connection):
            accepted.close()
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._agree(accepted, connection))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _agree(self, accepted: socket.socket, connection: HttpProtocol) -> None:
        timeout = self._gate.limits.handshake
        made = False
        try:
            context = self._context
            with suppress(OSError):  # the client disconnected, was too slow, or does not speak TLS
                if self._challenge is not None and self._challenge.file.exists():
                    context = await asyncio.wait_for(
                        self._context_for(accepted, self._challenge), timeout
                    )
                await self._loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=timeout,
                    ssl_shutdown_timeout=timeout,
                )
                made = True
        finally:
            if not made:
                accepted.close()
                self._gate.release(connection)

    async def _context_for(self, accepted: socket.socket, challenge: Challenge) -> ssl.SSLContext:
        """Return the context of the challenge if the ClientHello asks for it by its protocol.

        An SSLContext chooses a certificate by name but not by protocol, so the ClientHello is read
        without being taken from the socket.
        """
        hello = await self._hello(accepted)
        if b"".join(bytes((len(name),)) + name.encode() for name in ACME) not in hello:
            return self._context
        try:
            return challenge.context()
        except OperatorError:
            # The challenge ended meanwhile.
            return self._context

    async def _hello(self, accepted: socket.socket) -> bytes:
        readable: asyncio.Future[None] = self._loop.create_future()

        def set_readable() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(accepted, set_readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(accepted)
        # Bounded by the time for a handshake; at most one record is waited for.
        while hello := accepted.recv(_LONGEST_HELLO, socket.MSG_PEEK):
            if len(hello) >= min(_LONGEST_HELLO, 5 + int.from_bytes(hello[3:5], "big")):
                break
            await asyncio.sleep(_HELLO_AGAIN)
        return hello


def _waiting(sock: socket.socket) -> Iterator[tuple[socket.socket, tuple[str, int]]]:
    """Accept each connection that waits at `sock`, at most as many as may wait.

    Closing a socket resets the connections that were made to it and are not accepted yet.
    """
    for _ in range(BACKLOG):
        try:
            yield sock.accept()
        except OSError:
            return


class HostContext(ssl.SSLContext):
    """A TLS context, and the host for which it was chosen: "" for the only one of a server."""

    host = ""


# Only authenticated encryption with forward secrecy; TLS 1.3 has nothing else (RFC 9325).
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_HTTP = ("http/1.1",)


def tls_context(
    certificate: Path, key: Path, protocols: Sequence[str] = _HTTP, host: str = ""
) -> HostContext:
    """Return a context for TLS 1.2 (AEAD only) and 1.3. Raises OperatorError for unusable files."""
    context = _context(protocols)
    context.host = host
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "certificate and key do not match"
        raise OperatorError(f"cannot use this certificate: {reason}", "tls_certificate") from error
    return context


def _context(protocols: Sequence[str] = _HTTP) -> HostContext:
    context = HostContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(list(protocols))
    return context


class Certificates:
    """The certificates of several hosts at the same sockets, chosen by the name in a ClientHello.

    A handshake with another name, or with none, fails (RFC 6066 section 3).
    """

    def __init__(self, on_certificate: Callable[[str, Path], None]) -> None:
        """Serve none yet. `on_certificate` is called with host and file of each that is served."""
        self.context = _context()
        self.context.sni_callback = self._choose
        self._on_certificate = on_certificate
        self._files: dict[str, tuple[Path, Path]] = {}
        self._looks: dict[str, list[tuple[int, int, int] | None]] = {}
        self._contexts: dict[str, HostContext] = {}

    def use(self, files: Mapping[str, tuple[Path, Path]]) -> None:
        """Serve these files, chain and key of each host, from the next handshake on.

        A pair that cannot be used is logged; the one that its host had before stays.
        """
        for host in self._files.keys() - files.keys():
            del self._files[host], self._looks[host]
            self._contexts.pop(host, None)
        for host, pair in files.items():
            if self._files.get(host) != pair:
                self._files[host], self._looks[host] = pair, _looks(pair)
                self._load(host)

    async def watch(self) -> None:
        """Load files again that change, until cancelled."""
        while True:
            await asyncio.sleep(_RENEWED_WITHIN)
            for host, files in list(self._files.items()):
                now = _looks(files)
                if now != self._looks[host] and None not in now:
                    self._looks[host] = now
                    self._load(host)

    def _load(self, host: str) -> None:
        certificate, key = self._files[host]
        is_renewal = host in self._contexts
        try:
            self._contexts[host] = tls_context(certificate, key, host=host)
        except OperatorError as problem:
            log.error("certificate.refused", file=str(certificate), reason=str(problem))
            return
        if is_renewal:
            log.info("certificate.renewed", file=str(certificate))
        self._on_certificate(host, certificate)

    def _choose(
        self, handshake: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> int | None:
        chosen = self._contexts.get((name or "").lower())
        if chosen is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        handshake.context = chosen
        return None


_GRACE_SECONDS = 10
_LATECOMERS = 1.0  # seconds in which connections without a request may still send one
_RENEWED_WITHIN = 2.0  # seconds between two checks of the certificate files
HAND_OVER = signal.SIGUSR1
"""The signal that ends a process after another one has taken its place."""

_DEFAULTS = Limits()


async def serve(
    app: RoutedApp,
    *,
    sockets: Sequence[socket.socket],
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    tls_challenge: Path | None = None,
    certificates: Certificates | None = None,
    clear: Sequence[socket.socket] = (),
    limits: Limits = _DEFAULTS,
    drain: float = 0.0,
    on_ready: Callable[[], None] | None = None,
    on_certificate: Callable[[Path], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve `app` on `sockets` until SIGINT, SIGTERM or `stop`, then finish requests and close.

    `on_ready` is called once connections are accepted, `on_certificate` with the file of each
    certificate once it is served. After SIGTERM requests are still answered
    for `drain` seconds, each response being the last on its connection; requests not finished 10
    seconds after that are cut off. The certificate is loaded again when its files change.
    While the file `tls_challenge` exists, an authority that validates the host name is shown the
    certificate in it (RFC 8737). With `certificates`, all sockets but those in `clear` have TLS
    with the one for the host that the client names. Connections from proxies that `app` trusts are
    not counted by address. Raises OperatorError for an unusable certificate.
    """
    tls = None
    if tls_certificate is not None and tls_key is not None:
        tls = tls_context(tls_certificate, tls_key)
    beside: list[asyncio.Task[None]] = []
    if certificates is not None:
        tls = certificates.context
        beside.append(asyncio.create_task(certificates.watch()))
    challenge = None
    if tls_challenge is not None:
        challenge = Challenge(
            tls_challenge, lambda: tls_context(tls_challenge, tls_challenge, ACME)
        )
    server = _Server(app, Gate(limits, app.proxies), tls, drain, on_ready, challenge, clear)
    if tls is not None and tls_certificate is not None and tls_key is not None:
        on_renewal = on_certificate or _ignore
        on_renewal(tls_certificate)
        beside.append(asyncio.create_task(_renew(tls, tls_certificate, tls_key, on_renewal)))
    if stop is not None:
        beside.append(asyncio.create_task(_stop(server, stop)))
    try:
        await server.serve(sockets=list(sockets))
    finally:
        for task in beside:
            task.cancel()


def run(main: Coroutine[object, object, None]) -> None:
    """Run `main` to completion on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def _ignore(_: Path) -> None:
    return


async def _renew(
    tls: ssl.SSLContext, certificate: Path, key: Path, on_renewal: Callable[[Path], None]
) -> None:
    """Load a renewed certificate; an unusable one is logged and changes nothing."""
    files = (certificate, key)
    states = _looks(files)
    while True:
        await asyncio.sleep(_RENEWED_WITHIN)
        now = _looks(files)
        if now == states or None in now:
            continue
        states = now
        try:
            # Checked in another context first: a mismatched pair would be loaded by half.
            tls_context(certificate, key)
            tls.load_cert_chain(certificate, key)
        except (OperatorError, OSError) as problem:
            log.error("certificate.refused", file=str(certificate), reason=str(problem))
        else:
            log.info("certificate.renewed", file=str(certificate))
            on_renewal(certificate)


def _looks(files: Sequence[Path]) -> list[tuple[int, int, int] | None]:
    """Return what changes when a file is written or replaced; None for a missing file."""
    states: list[tuple[int, int, int] | None] = []
    for file in files:
        try:
            stat = file.stat()
            states.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            states.append(None)
    return states


async def _stop(server: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn's server with HttpProtocol, its own signal handling, draining and hand-over."""

    def __init__(
        self,
        app: RoutedApp,
        gate: Gate,
        tls: ssl.SSLContext | None,
        drain: float,
        on_ready: Callable[[], None] | None,
        challenge: Challenge | None,
        clear: Sequence[socket.socket],
    ) -> None:
        config = uvicorn.Config(
            app,
            interface="asgi3",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            workers=1,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)
        self._app = app
        self._gate = gate
        self._tls = tls
        self._challenge = challenge
        self._clear = clear
        self._drain = drain
        self._on_ready = on_ready
        self._listeners: list[TlsListener] = []
        self._plain: list[socket.socket] = []
        self._joining: list[asyncio.Task[object]] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle SIGINT, SIGTERM and `HAND_OVER` without raising them again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(HAND_OVER, self.hand_over)
        try:
            yield
        finally:
            for number in (*signals, HAND_OVER):
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain first after SIGTERM; SIGINT or a second signal stops without draining."""
        if sig != signal.SIGTERM or not self._drain or self._gate.draining or not self.started:
            super().handle_exit(sig, frame)
            return
        log.info("worker.draining", seconds=self._drain)
        self._gate.draining = self._gate.closing = True
        asyncio.get_running_loop().call_later(self._drain, self._accept_no_more)

    def hand_over(self) -> None:
        """Leave new connections to another process that already listens on the same sockets."""
        self._gate.closing = True
        self._stop_listening()
        wait = max(self._drain, _LATECOMERS)
        asyncio.get_running_loop().call_later(wait, setattr, self, "should_exit", True)

    def _stop_listening(self) -> None:
        loop = asyncio.get_running_loop()
        for sock in self._plain:
            for accepted, _ in _waiting(sock):
                joining = loop.connect_accepted_socket(self._make, accepted)
                self._joining.append(loop.create_task(joining))
        self._plain.clear()
        for server in self.servers:
            server.close()
        for listener in self._listeners:
            listener.accept_no_more()

    def _accept_no_more(self) -> None:
        self._stop_listening()
        # A client that has just connected is about to send a request; closed now, it would get no
        # answer.
        asyncio.get_running_loop().call_later(_LATECOMERS, setattr, self, "should_exit", True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, but count TLS connections before their handshakes."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(1)
        loop = asyncio.get_running_loop()
        self.servers = []
        for sock in sockets or []:
            listen(sock)
            if self._tls is None or sock in self._clear:
                server = await loop.create_server(self._make, sock=sock, backlog=BACKLOG)
                self.servers.append(server)
                self._plain.append(sock)
            else:
                self._listeners.append(
                    TlsListener(sock, self._tls, self._gate, self._make, self._challenge)
                )
        self.started = True
        if self._on_ready is not None:
            self._on_ready()

    def _make(self) -> HttpProtocol:
        loop = asyncio.get_running_loop()
        return HttpProtocol(self._app, self._gate, self.server_state, loop)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting TLS connections, then shut down as uvicorn does."""
        for listener in self._listeners:
            listener.close()
        await super().shutdown(sockets)


class RunningServer:
    """Serve an App on loopback from a separate thread for the duration of a `with` block.

    `limits` are the defaults unless a test gives shorter ones. A given `sock` is used instead of a
    new one, so that the port can be known before the App is made.
    """

    def __init__(
        self,
        app: RoutedApp,
        *,
        sock: socket.socket | None = None,
        tls_certificate: Path | None = None,
        tls_key: Path | None = None,
        limits: Limits = _DEFAULTS,
    ) -> None:
        """Bind now; requests are answered from `__enter__` on."""
        self._app = app
        self._socket = sock or bind("127.0.0.1", 0)
        self._tls_certificate = tls_certificate
        self._tls_key = tls_key
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="running-server", daemon=True)
        self.port = cast("tuple[str, int]", self._socket.getsockname())[1]
        scheme = "http" if tls_certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._socket.close()
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the server has already stopped
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._socket.close()
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised again in the thread that waits
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await serve(
            self._app,
            sockets=[self._socket],
            tls_certificate=self._tls_certificate,
            tls_key=self._tls_key,
            limits=self._limits,
            on_ready=self._started.set,
            stop=self._stop,
        )
