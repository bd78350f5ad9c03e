"""The peers written in Python, each in an environment of its own behind gunicorn."""

import os
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

from psycopg.conninfo import conninfo_to_dict

from bench.peers.install import HERE, python_packages, python_version
from bench.peers.peer import FEW_TOKENS, Paths, Peer, first_answer
from bench.peers.postgres import postgres
from bench.ports import free_port
from bench.servers import family
from bench.workloads import Place
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.replace import replace

_TOOLKIT = Paths(
    token="/o/token/",
    machine_token="/o/token/",
    authorize="/o/authorize/",
    introspection="/o/introspect/",
    userinfo="/o/userinfo/",
    keys="/o/.well-known/jwks.json",
    discovery="/o/.well-known/openid-configuration",
)
_AUTHLIB = Paths(
    token="/token",
    machine_token="/token",
    authorize="/authorize",
    introspection="/introspect",
    userinfo="/userinfo",
    keys="/jwks",
    discovery="/.well-known/openid-configuration",
)


_PROGRAMS = HERE / "programs"
_GUNICORN = ("gunicorn", "psycopg[binary]")


@contextmanager
def django_oauth_toolkit(directory: Path, *, on_postgresql: bool = False) -> Generator[Peer]:
    """It, in one process with four threads; on SQLite with synchronous=FULL, or on PostgreSQL."""
    folder = python_packages("toolkit", "django-oauth-toolkit", *_GUNICORN)
    key = ["openssl", "genrsa", "2048"]
    pem = subprocess.run(key, check=True, capture_output=True, text=True).stdout
    variables = {"PEER_FOLDER": str(directory), "PEER_RSA_KEY": pem}
    with (
        _database(on_postgresql) as kept,
        _served(folder, "toolkit_app", free_port(), {**variables, **kept.told}, _TOOLKIT) as served,
    ):
        process, address, started = served
        versions = python_version(folder, "django-oauth-toolkit", "django", "gunicorn")
        yield Peer(
            f"django-oauth-toolkit, {kept.name}",
            address,
            _TOOLKIT,
            lambda: [*family(process.pid), *kept.pids()],
            ", ".join([versions, *kept.version]),
            {"reference": {"client_id": "reference", "scope": "introspection"}},
            _sign_in(address),
            spaced=True,
            started=started,
            tokens=FEW_TOKENS,
            databases=kept.pids,
            signs="RS256",
        )


@contextmanager
def authlib(directory: Path, *, on_postgresql: bool = False) -> Generator[Peer]:
    """Authlib on Flask and SQLAlchemy, likewise."""
    packages = ("authlib", "flask", "flask-sqlalchemy", "gunicorn")
    folder = python_packages("authlib", *packages[:3], *_GUNICORN, "cryptography")
    port = free_port()
    variables = {
        "PEER_FOLDER": str(directory),
        "PEER_ISSUER": f"http://127.0.0.1:{port}",
        "PEER_EC_KEY": SigningKey.generate().private_jwk(),
        "PEER_RSA_KEY": SigningKey.generate(Algorithm.RS256).private_jwk(),
        # It refuses to speak http without it.
        "AUTHLIB_INSECURE_TRANSPORT": "1",
    }
    with (
        _database(on_postgresql) as kept,
        _served(folder, "authlib_app", port, {**variables, **kept.told}, _AUTHLIB) as served,
    ):
        process, address, started = served
        versions = python_version(folder, *packages[:3], "sqlalchemy", "gunicorn")
        peer = Peer(
            f"Authlib, {kept.name}",
            address,
            _AUTHLIB,
            lambda: [*family(process.pid), *kept.pids()],
            ", ".join([versions, *kept.version]),
            {"jwt": {"client_id": "service"}, "reference": {"client_id": "reference"}},
            _sign_in(address),
            posts_secret=True,
            spaced=True,
            started=started,
            tokens=FEW_TOKENS,
            databases=kept.pids,
        )
        yield replace(peer, by_rs256=replace(peer, public="phone-rs256", signs="RS256"))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where a peer keeps its rows: how it is told so, and the processes that count with it."""

    name: str
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    pids: Callable[[], Sequence[int]] = tuple
    version: tuple[str, ...] = ()


@contextmanager
def _database(on_postgresql: bool) -> Generator[_Kept]:
    if not on_postgresql:
        yield _Kept("SQLite FULL")
        return
    with postgres() as (urls, parent, version):
        parameters = conninfo_to_dict(urls[0])
        names = {"USER": "user", "HOST": "host", "NAME": "dbname"}
        variables = {f"PEER_DATABASE_{name}": str(parameters[word]) for name, word in names.items()}
        yield _Kept("PostgreSQL", variables, lambda: family(parent), (version,))


@contextmanager
def _served(
    folder: Path, app: str, port: int, variables: Mapping[str, str], paths: Paths
) -> Generator[tuple[subprocess.Popen[bytes], Place, float]]:
    environment = os.environ | variables | {"PYTHONPATH": str(_PROGRAMS)}
    python = str(folder / "bin/python")
    subprocess.run([python, str(_PROGRAMS / f"{app}.py"), "prepare"], check=True, env=environment)
    began = time.monotonic()
    serve = ["-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "4", "--workers", "1"]
    quiet = ["--keep-alive", "60", "--graceful-timeout", "1", "--log-level", "error"]
    process = subprocess.Popen([python, *serve, *quiet, f"{app}:application"], env=environment)
    try:
        address = Place("127.0.0.1", port)
        yield process, address, first_answer(address, paths.discovery, began)
    finally:
        process.terminate()
        process.wait(20)


def _sign_in(address: Place) -> Mapping[str, str]:
    jar = CookieJar()
    browser = build_opener(HTTPCookieProcessor(jar))
    with browser.open(f"http://{address.host}:{address.port}/sign-in") as answer:
        assert answer.status == 200
    return {cookie.name: cookie.value or "" for cookie in jar}
