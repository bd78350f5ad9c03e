"""Sockets, TLS, and the life of a server."""

import asyncio
import datetime as dt
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.wait import CEILING, until, wait_until
from tests.web import (
    PATIENT,
    QUICK,
    RUNTIME,
    connect,
    exchange_bytes,
    read_all,
    refuse,
    reset_by,
    small_app,
    statuses,
)
from tests.web.virtual import connected
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.web.connection.bind import bind, listen
from valetkey.web.connection.incoming_request import Message
from valetkey.web.exchange import Request, Response
from valetkey.web.listen import RunningServer, run, serve, tls_context
from valetkey.web.router import Route, RoutedApp

ROOT = Path(__file__).parents[2]
GET_LAST = b"GET /none HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for loopback that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    address = x509.IPAddress(ip_address("127.0.0.1"))
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "certificate.pem", folder / "key.pem"


def client_context(pair: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pair[0]))


def heard_by_tls(port: int, context: ssl.SSLContext, request: bytes = GET_LAST) -> bytes:
    with (
        connect(port) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(request)
        return read_all(connection)


def test_bound_socket_refuses_connections_until_it_listens() -> None:
    with bind("127.0.0.1", 0) as sock:
        address = sock.getsockname()
        assert address[0] == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        listen(sock)
        socket.create_connection(address).close()


def test_address_in_use_is_an_operator_error() -> None:
    """Whether the other program listened before this one was bound, or since."""
    with bind("127.0.0.1", 0) as sock, bind("127.0.0.1", sock.getsockname()[1]) as later:
        listen(sock)
        with pytest.raises(OperatorError, match="in use"):
            bind("127.0.0.1", sock.getsockname()[1])
        with pytest.raises(OperatorError, match="in use"):
            listen(later)


def test_tls_connection_is_served_and_recognized_as_secure(pair: tuple[Path, Path]) -> None:
    app = small_app(hsts=True)
    with RunningServer(app, limits=PATIENT, tls_certificate=pair[0], tls_key=pair[1]) as server:
        assert server.url.startswith("https://127.0.0.1:")
        heard = heard_by_tls(server.port, client_context(pair))
    assert statuses(heard) == [200]
    assert json.loads(heard.partition(b"\r\n\r\n")[2])["secure"] is True
    assert b"\r\nstrict-transport-security: " in heard


def test_tls_1_2_and_1_3_are_accepted(pair: tuple[Path, Path]) -> None:
    with RunningServer(small_app(), tls_certificate=pair[0], tls_key=pair[1]) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client_context(pair)
            context.minimum_version = context.maximum_version = version
            assert statuses(heard_by_tls(server.port, context)) == [200]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_tls_is_refused(pair: tuple[Path, Path], version: ssl.TLSVersion) -> None:
    context = client_context(pair)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with (
        RunningServer(small_app(), tls_certificate=pair[0], tls_key=pair[1]) as server,
        pytest.raises(ssl.SSLError),
    ):
        heard_by_tls(server.port, context)


@pytest.mark.parametrize("ciphers", ["ECDHE+AES:!AESGCM:!AESCCM", "ECDHE-ECDSA-AES128-SHA"])
def test_ciphers_without_authentication_are_refused(pair: tuple[Path, Path], ciphers: str) -> None:
    context = client_context(pair)
    context.set_ciphers(ciphers)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        RunningServer(small_app(), tls_certificate=pair[0], tls_key=pair[1]) as server,
        pytest.raises(ssl.SSLError),
    ):
        heard_by_tls(server.port, context)


def test_plain_http_at_a_tls_port_is_not_answered(pair: tuple[Path, Path]) -> None:
    with RunningServer(small_app(), tls_certificate=pair[0], tls_key=pair[1]) as server:
        try:
            heard = exchange_bytes(server.port, GET_LAST)
        except ConnectionResetError:
            heard = b""
    assert b"HTTP/1.1" not in heard


def test_slow_clients_are_cut_off_inside_tls_too(pair: tuple[Path, Path]) -> None:
    half = b"POST /echo HTTP/1.1\r\nHost: h.example\r\nContent-Length: 9\r\n\r\nhalf"
    limits = replace(PATIENT, body=QUICK.body)
    with RunningServer(
        small_app(), limits=limits, tls_certificate=pair[0], tls_key=pair[1]
    ) as server:
        heard = heard_by_tls(server.port, client_context(pair), half)
    assert statuses(heard) == [408]


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half"])
def test_unfinished_handshake_is_disconnected(pair: tuple[Path, Path], sent: bytes) -> None:
    limits = replace(PATIENT, handshake=QUICK.handshake)
    with (
        RunningServer(
            small_app(), limits=limits, tls_certificate=pair[0], tls_key=pair[1]
        ) as server,
        connect(server.port) as connection,
    ):
        connection.sendall(sent)
        assert reset_by(connection)


def test_unfinished_handshakes_count_as_connections_of_their_address(
    pair: tuple[Path, Path],
) -> None:
    limits = replace(PATIENT, connections_per_address=3)
    context = client_context(pair)

    def is_answered(port: int, source: str) -> bool:
        address, own = ("127.0.0.1", port), (source, 0)
        try:
            with (
                socket.create_connection(address, timeout=CEILING, source_address=own) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
            ):
                connection.sendall(GET_LAST)
                return statuses(read_all(connection)) == [200]
        except OSError:
            return False

    with (
        RunningServer(
            small_app(), limits=limits, tls_certificate=pair[0], tls_key=pair[1]
        ) as server,
        ExitStack() as stack,
    ):
        half = [stack.enter_context(connect(server.port)) for _ in range(3)]
        for connection in half:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        with connect(server.port) as one_too_many:
            assert reset_by(one_too_many)
        assert is_answered(server.port, "127.0.0.2")
        half.pop().close()
        wait_until(lambda: is_answered(server.port, "127.0.0.1"))


def test_files_that_are_no_certificate_are_an_operator_error(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    for certificate, key in ((tmp_path / "nothing", pair[1]), (pair[1], pair[0])):
        with pytest.raises(OperatorError) as caught:
            tls_context(certificate, key)
        assert caught.value.setting == "tls_certificate"


def is_listening(port: int) -> bool:
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return False
    return True


def test_stopping_server_finishes_open_requests() -> None:
    async def slow(request: Request) -> Response:
        arrival.set()
        await until(lambda: not is_listening(server.port), "the server does not stop")
        return Response(200, b"done")

    arrival = threading.Event()
    heard: list[bytes] = []
    app = small_app([Route("/slow", {"GET": slow}, refuse)])
    server = RunningServer(app, limits=PATIENT)
    request = GET_LAST.replace(b"/none", b"/slow").replace(b"Connection: close\r\n", b"")
    client = threading.Thread(target=lambda: heard.append(exchange_bytes(server.port, request)))
    with server:
        client.start()
        assert arrival.wait(CEILING)
    client.join()
    assert heard[0].endswith(b"\r\n\r\ndone")
    assert b"connection: close" in heard[0]


def test_an_idle_connection_does_not_keep_a_server_from_stopping() -> None:
    request = GET_LAST.replace(b"Connection: close\r\n", b"")
    with connected(small_app()) as idle:
        idle.say(request)
        assert not idle.transport.is_closing()
        idle.protocol.shutdown()
        idle.loop.settle()
        assert idle.transport.closed
    server = RunningServer(small_app(), limits=PATIENT)
    with server:
        connection = connect(server.port)
        connection.sendall(request)
        assert statuses(connection.recv(65_536)) == [200]
    with connection:
        assert connection.recv(65_536) == b""


def test_stopped_server_refuses_connections() -> None:
    with RunningServer(small_app()) as server:
        assert statuses(exchange_bytes(server.port, GET_LAST)) == [200]
    with pytest.raises(ConnectionRefusedError):
        exchange_bytes(server.port, GET_LAST)


def test_missing_certificate_is_an_operator_error(pair: tuple[Path, Path], tmp_path: Path) -> None:
    server = RunningServer(small_app(), tls_certificate=tmp_path / "nothing", tls_key=pair[1])
    with pytest.raises(OperatorError, match="No such file"), server:
        raise AssertionError("it started")


def test_readiness_is_announced_when_connections_are_answered() -> None:
    answers: list[list[int]] = []

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def answered(done: asyncio.Future[bytes]) -> None:
            answers.append(statuses(done.result()))
            stop.set()

        def ready() -> None:
            port = sock.getsockname()[1]
            answer = loop.run_in_executor(None, exchange_bytes, port, GET_LAST)
            answer.add_done_callback(answered)

        await serve(small_app(), sockets=[sock], limits=PATIENT, on_ready=ready, stop=stop)

    sock = bind("127.0.0.1", 0)
    run(main())
    assert answers == [[200]]


PROGRAM = """
from tests.web import small_app
from valetkey.web.connection.bind import bind
from valetkey.web.listen import run, serve
sock = bind("127.0.0.1", 0)
ready = lambda: print(sock.getsockname()[1], flush=True)
run(serve(small_app(), sockets=[sock], on_ready=ready))
print("ended", flush=True)
"""


DRAINED = """
import sys
from pathlib import Path
from tests.web import small_app
from valetkey.web import log
from valetkey.web.connection.bind import bind
from valetkey.web.listen import run, serve
log.set_up("info", "text")
sock = bind("127.0.0.1", 0)
tls = dict(zip(("tls_certificate", "tls_key"), map(Path, sys.argv[1:])))
ready = lambda: print(sock.getsockname()[1], flush=True)
run(serve(small_app(), sockets=[sock], drain=0.2, on_ready=ready, **tls))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_good_order(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        port = int(program.stdout.readline())
        assert statuses(exchange_bytes(port, GET_LAST)) == [200]
        program.send_signal(number)
        output, complained = program.communicate(timeout=CEILING)
    assert (program.returncode, output, complained) == (0, "ended\n", "")


@pytest.mark.parametrize("files", [[], ["certificate.pem", "key.pem"]], ids=["plain", "TLS"])
def test_connections_that_wait_when_a_drain_ends_are_answered(
    files: Sequence[str], pair: tuple[Path, Path]
) -> None:
    tls = [str(pair[0].parent / name) for name in files]
    with (
        subprocess.Popen(
            [sys.executable, "-c", DRAINED, *tls],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program,
        ExitStack() as stack,
    ):
        assert program.stdout is not None
        assert program.stderr is not None
        port = int(program.stdout.readline())
        program.terminate()
        assert "worker.draining" in program.stderr.readline()
        # Stopped, it finds the clients and the end of its drain at once.
        program.send_signal(signal.SIGSTOP)
        clients = [stack.enter_context(connect(port)) for _ in range(8)]
        time.sleep(0.3)
        with ThreadPoolExecutor(len(clients)) as threads:
            context = client_context(pair) if tls else None
            heard = [threads.submit(heard_over, client, context) for client in clients]
            program.send_signal(signal.SIGCONT)
        answers = [statuses(future.result()) for future in heard]
        assert program.wait(CEILING) == 0
    assert answers == [[200]] * len(clients)


def heard_over(plain: socket.socket, context: ssl.SSLContext | None) -> bytes:
    with context.wrap_socket(plain, server_hostname="127.0.0.1") if context else plain as client:
        client.sendall(GET_LAST)
        return read_all(client)


def test_background_work_is_restarted_after_failures_and_ends_with_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("valetkey.web.offload._RESTART", 0.0)
    happened: list[str] = []

    async def fragile() -> None:
        happened.append("began")
        if happened.count("began") < 3:
            raise RuntimeError
        try:
            await asyncio.sleep(60)
        finally:
            happened.append("ended")

    async def brief() -> None:
        happened.append("brief")

    async def close() -> None:
        happened.append("closed")

    app = RoutedApp(
        (),
        runtime=RUNTIME,
        refuse=refuse,
        hosts=(),
        background=(fragile, brief),
        on_close=close,
    )
    asyncio.run(live(app, lambda: happened.count("began") == 3))
    assert happened.count("began") == 3
    assert happened.count("brief") == 1
    assert happened[-2:] == ["ended", "closed"]


async def live(app: RoutedApp, is_over: Callable[[], bool]) -> None:
    """One lifespan, as a server leads it."""
    message_types: list[object] = []
    calls = 0

    async def receive() -> Message:
        nonlocal calls
        calls += 1
        if calls == 2:
            await until(is_over)
        return {"type": ("lifespan.startup", "lifespan.shutdown")[calls - 1]}

    async def send(message: Message) -> None:
        message_types.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert message_types == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_asgi_scopes_other_than_http_are_refused() -> None:
    async def nothing(*_: object) -> Message:
        return {}

    with pytest.raises(ValueError, match="only http"):
        asyncio.run(small_app()({"type": "websocket"}, nothing, nothing))  # type: ignore[arg-type]
