"""Requests that their clients gave up during a stall of the database change nothing."""

import socket
import struct
import sys
import time
from base64 import b64encode
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
import requests

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import Settings
from valetkey.testing.person import Person
from valetkey.testing.server import Servers

_PASSWORD = "correct horse battery staple"
_SECRET = "a secret of the printer, long enough for it"
_CALLBACK = "https://app.example/cb"
_CODES = 8
_STALL = 1.8  # seconds: longer than a client may have closed only its own half


_HOLD = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
raw.execute("ROLLBACK")
"""


@contextmanager
def _stalled(database_url: str) -> Generator[None]:
    """The database as another program holds it: nothing of ours is written meanwhile."""
    if database_url.startswith("sqlite"):
        # Another process: who closes a file here takes away the locks of the server's thread.
        command = [sys.executable, "-c", _HOLD, database_url.removeprefix("sqlite:///")]
        with Popen(command, stdin=PIPE, stdout=PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == b"held\n"
            yield
            holder.stdin.close()
            assert holder.wait(30) == 0
        return
    with psycopg.connect(database_url) as raw_:
        raw_.execute("LOCK TABLE vouchers IN ACCESS EXCLUSIVE MODE")
        yield
        raw_.rollback()


def _code(servers: Servers, ada: Person) -> str:
    asked = {
        "response_type": "code",
        "client_id": "printer",
        "redirect_uri": _CALLBACK,
        "scope": "notes:read",
    }
    page = ada.open(f"{servers.auth_url}/oauth/authorize?{urlencode(asked)}")
    if any(button.id == "sign-in" for button in page.buttons):
        page = ada.sign_in(page, "ada", _PASSWORD)
    if not page.location:
        page = ada.allow(page)
    return page.told["code"]


def _form(code: str) -> dict[str, str]:
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": _CALLBACK}


def _send(servers: Servers, code: str) -> socket.socket:
    parts, body = urlsplit(servers.auth_url), urlencode(_form(code)).encode()
    basic = b64encode(f"printer:{_SECRET}".replace(" ", "+").encode()).decode()
    head = (
        f"POST /oauth/token HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Basic {basic}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    sent = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)
    sent.sendall(head.encode() + body)
    return sent


def _redeem(servers: Servers, code: str) -> int:
    url = f"{servers.auth_url}/oauth/token"
    return requests.post(url, _form(code), auth=("printer", _SECRET), timeout=30).status_code


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_codes_of_requests_given_up_during_a_stall_stay_unspent(
    tmp_path: Path, database_url: str, reset: bool
) -> None:
    given = Settings()
    settings = replace(given, authorization=replace(given.authorization, database=database_url))
    with Servers(tmp_path, settings=settings) as servers:
        servers.register_user("ada", _PASSWORD)
        metadata = ClientMetadata("Printer", redirect_uris=(_CALLBACK,), scopes=("notes:read",))
        servers.register_client(metadata, "printer", _SECRET)
        ada = Person(servers.auth_url)
        codes = [_code(servers, ada) for _ in range(_CODES)]
        # A request like those below is answered: what follows does not fail for another reason.
        with closing(_send(servers, codes.pop())) as alone:
            assert alone.recv(12) == b"HTTP/1.1 200"
        with _stalled(database_url):
            waiting = [_send(servers, code) for code in codes]
            time.sleep(_STALL / 3)
            for each in waiting:
                if reset:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.close()
            time.sleep(_STALL * 2 / 3)
        # What waits for the database comes before what is asked now.
        assert _redeem(servers, _code(servers, ada)) == 200
        assert [_redeem(servers, code) for code in codes] == [200] * len(codes)


def test_client_that_closes_its_half_is_answered(tmp_path: Path) -> None:
    with Servers(tmp_path) as servers:
        servers.register_user("ada", _PASSWORD)
        metadata = ClientMetadata("Printer", redirect_uris=(_CALLBACK,), scopes=("notes:read",))
        servers.register_client(metadata, "printer", _SECRET)
        with closing(_send(servers, _code(servers, Person(servers.auth_url)))) as half:
            half.shutdown(socket.SHUT_WR)
            assert half.recv(12) == b"HTTP/1.1 200"
