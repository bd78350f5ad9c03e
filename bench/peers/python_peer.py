"""The peers written in Python, each in an environment of its own behind gunicorn."""

import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

from bench.peers.install import HERE, python_packages, python_version
from bench.peers.peer import Paths, Peer
from bench.servers import family, free_port
from bench.workloads import Place

_TOOLKIT = Paths(
    token="/o/token/",
    machine_token="/o/token/",
    authorize="/o/authorize/",
    introspection="/o/introspect/",
    userinfo="/o/userinfo/",
    keys="/o/.well-known/jwks.json",
    discovery="/o/.well-known/openid-configuration",
)
_PATIENCE = 20.0


@contextmanager
def django_oauth_toolkit(directory: Path) -> Generator[Peer]:
    """It, on SQLite with synchronous=FULL, in one process with four threads."""
    folder = python_packages("toolkit", "django-oauth-toolkit", "gunicorn")
    key = ["openssl", "genrsa", "2048"]
    pem = subprocess.run(key, check=True, capture_output=True, text=True).stdout
    environment = os.environ | {
        "PEER_FOLDER": str(directory),
        "PEER_RSA_KEY": pem,
        "PYTHONPATH": str(HERE),
    }
    python = str(folder / "bin/python")
    subprocess.run([python, str(HERE / "toolkit_app.py"), "prepare"], check=True, env=environment)
    port = free_port()
    serve = ["-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "4", "--workers", "1"]
    quiet = [
        "--keep-alive",
        "60",
        "--graceful-timeout",
        "1",
        "--log-level",
        "error",
        "toolkit_app:application",
    ]
    process = subprocess.Popen([python, *serve, *quiet], env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        jar = CookieJar()
        _sign_in(build_opener(HTTPCookieProcessor(jar)), f"{url}/sign-in")
        yield Peer(
            "django-oauth-toolkit, SQLite FULL",
            Place.of(url),
            _TOOLKIT,
            lambda: family(process.pid),
            python_version(folder, "django-oauth-toolkit", "django", "gunicorn"),
            {"reference": {"client_id": "reference", "scope": "introspection"}},
            {cookie.name: cookie.value or "" for cookie in jar},
            spaced=True,
        )
    finally:
        process.terminate()
        process.wait(20)


def _sign_in(browser: OpenerDirector, url: str) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with browser.open(url) as answer:
                assert answer.status == 200
                return
        except URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
