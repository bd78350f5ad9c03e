"""What a client gets while a server has no worker: 503, over TLS too, in bounded time."""

import http.client
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select
from time import monotonic

import pytest

from tests.cli.serving.test_tls import certify
from tests.support.wait import CEILING
from valetkey.cli.serving import unavailable
from valetkey.cli.serving.unavailable import Unavailable


@contextmanager
def _absent(*tls: Path) -> Generator[int]:
    """Answer in place of absent workers, as the supervisor does; give the port."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = Unavailable([listening.fileno()], tuple(map(str, tls)))

        def supervise() -> None:
            while not done.is_set():
                select([answering], [], [], 0.05)
                answering.answer()

        thread = threading.Thread(target=supervise)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            done.set()
            thread.join()
            answering.close()


def _trust(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "c.pem")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_client_receives_503_with_retry_after(tmp_path: Path, version: ssl.TLSVersion) -> None:
    certify(tmp_path)
    trust = _trust(tmp_path)
    trust.minimum_version = trust.maximum_version = version
    with _absent(tmp_path / "c.pem", tmp_path / "k.pem") as port:
        for body in (None, b"x" * 200_000):
            connection = http.client.HTTPSConnection(
                "127.0.0.1", port, timeout=CEILING, context=trust
            )
            connection.request("POST", "/token", body)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert answer.read() == b"The server is not available yet\n"


def test_request_sent_after_a_delay_is_answered() -> None:
    with _absent() as port, socket.create_connection(("127.0.0.1", port), CEILING) as client:
        # Longer than the supervisor takes to accept it.
        assert select([client], [], [], 0.3)[0] == []
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 503 ")


def test_client_that_sends_nothing_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(tmp_path)
    monkeypatch.setattr(unavailable, "_LONGEST", 0.3)
    for files in ((), (tmp_path / "c.pem", tmp_path / "k.pem")):
        with (
            _absent(*files) as port,
            socket.create_connection(("127.0.0.1", port), CEILING) as client,
        ):
            begun = monotonic()
            assert client.recv(1) == b""
            assert monotonic() - begun < CEILING / 2


def test_silent_clients_block_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certify(tmp_path)
    monkeypatch.setattr(unavailable, "_LONGEST", CEILING)
    monkeypatch.setattr(unavailable, "_MOST", 10)
    with _absent(tmp_path / "c.pem", tmp_path / "k.pem") as port, ExitStack() as silent:
        for _ in range(40):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), CEILING))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=CEILING, context=_trust(tmp_path)
        )
        connection.request("GET", "/")
        assert connection.getresponse().status == 503


def test_connections_are_closed_where_the_certificate_cannot_be_used(tmp_path: Path) -> None:
    certify(tmp_path)
    (tmp_path / "c.pem").write_bytes(b"")
    with (
        _absent(tmp_path / "c.pem", tmp_path / "k.pem") as port,
        socket.create_connection(("127.0.0.1", port), CEILING) as client,
    ):
        assert client.recv(1) == b""
