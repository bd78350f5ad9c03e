"""The applications under a standard ASGI server, as docs/how-to says."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from bench.ports import free_port
from tests.support.stall import stalled
from tests.support.wait import CEILING
from valetkey.testing.browser import UserAgent

SECRET = "a-secret-of-the-service-with-more-than-32"
PASSWORD = "correct horse battery staple"
CALLBACK = "https://app.example/cb"
_PATIENCE = CEILING
_STALL = 1.5  # seconds: under another server the end is asked for after the first of them
_REGISTER = f"""
[[clients]]
client_id = "service"
client_secret = "{SECRET}"
name = "Service"
grant_types = ["client_credentials"]

[[clients]]
client_id = "printer"
client_secret = "{SECRET}"
name = "Printer"
grant_types = ["authorization_code"]
redirect_uris = ["{CALLBACK}"]
scopes = ["notes:read"]

[[users]]
username = "ada"
email = "ada@example.com"
name = "Ada"
password = "{PASSWORD}"
"""


@contextmanager
def _uvicorn(application: str, port: int, config: Path) -> Generator[None]:
    command = (
        *(sys.executable, "-m", "uvicorn", f"valetkey.asgi:{application}", "--port", str(port)),
        *("--no-proxy-headers", "--no-server-header", "--no-access-log"),
    )
    process = subprocess.Popen(
        command,
        env={**os.environ, "VALETKEY_CONFIG": str(config)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + _PATIENCE
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        _, output = process.communicate(timeout=_PATIENCE)
        assert "Traceback" not in output, output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asgi")


@pytest.fixture(scope="module")
def urls(folder: Path) -> Iterator[tuple[str, str]]:
    """Both servers, each under a uvicorn of its own."""
    ports = free_port(), free_port()
    auth, api = (f"http://127.0.0.1:{port}" for port in ports)
    config, register = folder / "valetkey.toml", folder / "register.toml"
    config.write_text(f'[authorization]\nurl = "{auth}"\n[resource]\nurl = "{api}"\n')
    register.touch(0o600)
    register.write_text(_REGISTER)
    program = Path(sys.executable).with_name("valetkey")
    subprocess.run(
        [program, "apply", str(register), "--config", str(config), "--yes"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with ExitStack() as stack:
        stack.enter_context(_uvicorn("authorization", ports[0], config))
        stack.enter_context(_uvicorn("resource", ports[1], config))
        yield auth, api


def test_both_applications_answer_under_uvicorn(urls: tuple[str, str]) -> None:
    auth, api = urls
    answer = requests.post(
        f"{auth}/oauth/token",
        {"grant_type": "client_credentials"},
        auth=("service", SECRET),
        timeout=CEILING,
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    token = answer.json()["access_token"]
    seen = requests.get(
        f"{api}/v2/client", headers={"Authorization": f"Bearer {token}"}, timeout=CEILING
    )
    assert seen.status_code == 200, seen.text
    introspection = requests.post(
        f"{auth}/oauth/introspect", {"token": token}, auth=("service", SECRET), timeout=CEILING
    )
    assert introspection.json()["active"] is True
    assert requests.get(f"{api}/v2/client", timeout=CEILING).status_code == 401


def test_bodies_are_limited_under_uvicorn(urls: tuple[str, str]) -> None:
    answer = requests.post(f"{urls[0]}/oauth/token", {"x": "y" * 70_000}, timeout=CEILING)
    assert answer.status_code == 413


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_codes_of_requests_given_up_during_a_stall_stay_unspent_under_uvicorn(
    urls: tuple[str, str], folder: Path, *, reset: bool
) -> None:
    auth = urls[0]
    parts, ada = urlsplit(auth), UserAgent(auth)
    question = {"client_id": "printer", "redirect_uri": CALLBACK, "scope": "notes:read"}

    def code() -> str:
        page = ada.open(f"{auth}/oauth/authorize?{urlencode(question | {'response_type': 'code'})}")
        if any(button.id == "sign-in" for button in page.buttons):
            page = ada.sign_in(page, "ada", PASSWORD)
        return (page if page.location else ada.allow(page)).redirect_parameters["code"]

    def form(of: str) -> dict[str, str]:
        own = {"client_id": "printer", "client_secret": SECRET, "redirect_uri": CALLBACK}
        return own | {"grant_type": "authorization_code", "code": of}

    def redeem(of: str) -> int:
        return requests.post(f"{auth}/oauth/token", form(of), timeout=CEILING).status_code

    assert redeem(code()) == 200
    codes = [code() for _ in range(4)]
    database = next(folder.rglob("authorization.db"))
    with stalled(f"sqlite:///{database}"), ExitStack() as stack:
        waiting: list[socket.socket] = []
        for authorization_code in codes:
            connection = socket.create_connection((parts.hostname, parts.port), timeout=CEILING)
            waiting.append(stack.enter_context(connection))
            body = urlencode(form(authorization_code)).encode()
            connection.sendall(
                f"POST /oauth/token HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
        time.sleep(0.3)
        for connection in waiting:
            if reset:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        time.sleep(_STALL)
    assert redeem(code()) == 200
    assert [redeem(authorization_code) for authorization_code in codes] == [200] * len(codes)


def test_invalid_configuration_stops_uvicorn_without_a_traceback(tmp_path: Path) -> None:
    config = tmp_path / "valetkey.toml"
    config.write_text('[authorization]\nurl = "nonsense"\n')
    done = subprocess.run(
        [sys.executable, "-m", "uvicorn", "valetkey.asgi:authorization", "--port", "0"],
        env={**os.environ, "VALETKEY_CONFIG": str(config)},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert "authorization.url" in done.stderr
    assert "Traceback" not in done.stderr
