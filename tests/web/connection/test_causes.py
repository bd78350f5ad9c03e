"""Connections and requests that are turned away are logged with their cause, once a minute."""

import asyncio
import io
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest

from tests.sdk.certificate import self_signed
from tests.support.wait import until
from tests.web import QUICK
from tests.web.connection.test_gate import Guest
from valetkey.kernel.replace import replace
from valetkey.web import log
from valetkey.web.client_address import Proxies
from valetkey.web.connection.gate import Gate
from valetkey.web.listen import TlsListener


@pytest.fixture
def told() -> Iterator[io.StringIO]:
    log._seldom.clear()
    stream = io.StringIO()
    log.set_up("info", "json", stream)
    yield stream
    log.set_up("warning", "json")


def _causes(stream: io.StringIO) -> list[tuple[str, str, str]]:
    lines = map(json.loads, stream.getvalue().splitlines())
    return [(line["level"], line["event"], line["cause"]) for line in lines]


def test_gate_logs_which_limit_is_reached(told: io.StringIO) -> None:
    async def main() -> None:
        gate = Gate(replace(QUICK, connections=2, connections_per_address=1, requests=1), Proxies())
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"):
            gate.admit(Guest(address))
        assert [gate.enter("/", ()) for _ in range(3)] == [True, False, False]

    asyncio.run(main())
    assert _causes(told) == [
        ("warning", "connection.turned_away", "limits.connections_per_address is reached"),
        ("warning", "connection.turned_away", "limits.connections is reached"),
        ("warning", "request.turned_away", "limits.requests is reached"),
    ]


def _highest_descriptor() -> int:
    return max(int(descriptor.name) for descriptor in Path("/proc/self/fd").iterdir())


def test_listener_without_free_descriptor_logs_it_and_accepts_later(
    told: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valetkey.web.listen._RETRY", 0.01)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    soft, hard = getrlimit(RLIMIT_NOFILE)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock, socket.socket() as client:
            sock.setblocking(False)
            # It turns away what it accepts, and says so.
            gate = Gate(replace(QUICK, connections=0), Proxies())
            listener = TlsListener(sock, context, gate, Guest)  # type: ignore[arg-type]
            highest = _highest_descriptor()
            held = [sock.dup() for _ in range(2)]
            try:
                # Every descriptor below the limit is in use, the client's among them.
                setrlimit(RLIMIT_NOFILE, (highest, hard))
                while True:
                    held.append(sock.dup())
            except OSError:
                pass
            try:
                client.connect(sock.getsockname())
                await until(lambda: "connection.not_accepted" in told.getvalue())
            finally:
                setrlimit(RLIMIT_NOFILE, (soft, hard))
                for descriptor in held:
                    descriptor.close()
            await until(lambda: "connection.turned_away" in told.getvalue())
            listener.close()

    asyncio.run(main())
    assert _causes(told)[0] == ("error", "connection.not_accepted", "Too many open files")
