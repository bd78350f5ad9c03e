"""The applications under a standard ASGI server, as docs/how-to says."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import requests

from tests.deploy.nginx import free_port
from tests.support.wait import CEILING

SECRET = "a-secret-of-the-service-with-more-than-32"
_PATIENCE = CEILING
_REGISTER = f"""
[[clients]]
client_id = "service"
client_secret = "{SECRET}"
name = "Service"
grant_types = ["client_credentials"]
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
        _, said = process.communicate(timeout=_PATIENCE)
        assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Both servers, each under a uvicorn of its own."""
    folder = tmp_path_factory.mktemp("asgi")
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
    asked = requests.post(
        f"{auth}/oauth/introspect", {"token": token}, auth=("service", SECRET), timeout=CEILING
    )
    assert asked.json()["active"] is True
    assert requests.get(f"{api}/v2/client", timeout=CEILING).status_code == 401


def test_bodies_are_limited_under_uvicorn(urls: tuple[str, str]) -> None:
    answer = requests.post(f"{urls[0]}/oauth/token", {"x": "y" * 70_000}, timeout=CEILING)
    assert answer.status_code == 413


def test_wrong_configuration_is_said_once_and_stops_uvicorn(tmp_path: Path) -> None:
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
