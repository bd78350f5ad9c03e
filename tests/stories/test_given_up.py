"""Requests that their clients gave up during a stall of the database change nothing."""

import asyncio
import socket
import ssl
import struct
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.sdk.certificate import self_signed
from tests.stories import printer
from tests.support.stall import stalled
from tests.support.wait import CEILING
from valetkey.authorization.app.build import build
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers
from valetkey.web.listen import RunningServer

_STALL = 1.5  # seconds: longer than a client may have closed only its own half
_PIPELINES = ((1, 0), (4, 0), (4, 9_000))
"""Requests sent together, and bytes that each has more: the last wait unread, beyond 16 KiB."""


def _request(servers: Servers, code: str, padding: int = 0) -> bytes:
    body = urlencode(printer.code_form(code)).encode()
    basic = b64encode(f"printer:{printer.SECRET}".replace(" ", "+").encode()).decode()
    head = (
        f"POST /oauth/token HTTP/1.1\r\nHost: {urlsplit(servers.auth_url).netloc}\r\n"
        f"Authorization: Basic {basic}\r\nX-Padding: {'x' * padding}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _connect(port: int, tls: ssl.SSLContext | None = None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=CEILING)
    return plain if tls is None else tls.wrap_socket(plain, server_hostname="127.0.0.1")


def _give_up(connection: socket.socket, *, reset: bool) -> None:
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _read_answers(connection: socket.socket, count: int) -> list[bytes]:
    heard = b""
    while heard.count(b"HTTP/1.1 ") < count and (piece := connection.recv(65_536)):
        heard += piece
    return [answer[:3] for answer in heard.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture
def servers(tmp_path: Path, database_url: str) -> Iterator[Servers]:
    """An authorization server on each engine, with a user and a client."""
    defaults = Settings()
    settings = replace(
        defaults, authorization=replace(defaults.authorization, database=database_url)
    )
    with Servers(tmp_path, settings=settings, with_resource=False) as running:
        running.register_user("ada", printer.PASSWORD)
        printer.register(running, "notes:read")
        yield running


def test_codes_of_requests_given_up_during_a_stall_stay_unspent(
    tmp_path: Path, database_url: str, servers: Servers
) -> None:
    ada = UserAgent(servers.auth_url)
    certificate, key = self_signed(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate))
    second = asyncio.run(build(servers.settings, servers.runtime, servers.scopes))
    plain = urlsplit(servers.auth_url).port or 0
    given_up: dict[str, str] = {}
    with RunningServer(second, tls_certificate=certificate, tls_key=key) as encrypted:
        ways = {"TCP": (plain, None), "TLS": (encrypted.port, trust)}
        ready: list[tuple[socket.socket, bytes, bool]] = []
        for way, reset, (count, padding) in product(ways, (True, False), _PIPELINES):
            codes = [printer.code(servers, ada) for _ in range(count)]
            name = f"{way} {'reset' if reset else 'closed'}, {padding} bytes more"
            given_up |= {
                code: f"{name}: {position} of {count}" for position, code in enumerate(codes)
            }
            sent = b"".join(_request(servers, code, padding) for code in codes)
            ready.append((_connect(*ways[way]), sent, reset))
        # Pipelines like these are answered: what follows does not fail for another reason.
        for way, (count, padding) in product(ways, _PIPELINES):
            with closing(_connect(*ways[way])) as alone:
                pipeline = [
                    _request(servers, printer.code(servers, ada), padding) for _ in range(count)
                ]
                alone.sendall(b"".join(pipeline))
                assert _read_answers(alone, count) == [b"200"] * count
        with stalled(database_url):
            for connection, sent, _ in ready:
                connection.sendall(sent)
            time.sleep(_STALL / 5)
            for connection, _, reset in ready:
                _give_up(connection, reset=reset)
            time.sleep(_STALL)
        # What waits for the database comes before what is asked now.
        assert printer.redeem(servers, printer.code(servers, ada)).status_code == 200
        statuses = {
            name: printer.redeem(servers, code).status_code for code, name in given_up.items()
        }
        assert {name for name, status in statuses.items() if status != 200} == set()


def test_client_that_closes_its_half_is_answered(servers: Servers) -> None:
    ada = UserAgent(servers.auth_url)
    with closing(_connect(urlsplit(servers.auth_url).port or 0)) as half:
        half.sendall(b"".join(_request(servers, printer.code(servers, ada)) for _ in range(3)))
        half.shutdown(socket.SHUT_WR)
        assert _read_answers(half, 3) == [b"200"] * 3
