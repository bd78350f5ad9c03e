"""Ory Hydra on PostgreSQL, where a `hydra` program is on the PATH, beside a login app of ours."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict

from bench.peers.browser import Browser
from bench.peers.hydra_login import hydra_login
from bench.peers.peer import FEW_TOKENS, SCOPE, Paths, Peer, first_answer
from bench.peers.postgres import postgres
from bench.ports import free_port
from bench.servers import DISCOVERY, family
from bench.workloads import CALLBACK, CHALLENGE, SECRET, Place, location
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.replace import replace

NAME = "Hydra, PostgreSQL"

_PROGRAM = "hydra"
_OFFLINE = "offline_access"
_CONNECTIONS = 40
"""More than callers: a request that has one in a transaction waits for a second, all of them for
good if there are no more."""
_PATIENCE = 30.0
_PATHS = Paths(
    token="/oauth2/token",
    machine_token="/oauth2/token",
    authorize="/oauth2/auth",
    introspection="/admin/oauth2/introspect",
    userinfo="/userinfo",
    keys="/.well-known/jwks.json",
    discovery=DISCOVERY,
)
_KEY_SETS = ("hydra.openid.id-token", "hydra.jwt.access-token")


def hydra_is_missing() -> str:
    """Return "" if it can be measured, else the reason."""
    if shutil.which(_PROGRAM) is None:
        return "there is no `hydra` program on the PATH"
    return ""


@dataclass(frozen=True, slots=True)
class _Served:
    """One process, whose ID tokens are signed by one key."""

    public: Place
    admin: Place
    pid: int
    started: float


@contextmanager
def hydra(directory: Path) -> Generator[Peer]:
    """It, in one process, whose user is signed in; another process signs by RS256.

    Its algorithm is that of its key, so the two have a database each, of the same PostgreSQL.
    """
    at = free_port()
    with ExitStack() as stack:
        urls, parent, engine = stack.enter_context(postgres(at))
        up: list[_Served] = []
        for url, algorithm in zip(urls, (Algorithm.ES256, Algorithm.RS256), strict=True):
            user, name = (str(conninfo_to_dict(url)[key]) for key in ("user", "dbname"))
            folder = directory / algorithm
            folder.mkdir()
            dsn = f"postgres://{user}@127.0.0.1:{at}/{name}?sslmode=disable"
            dsn += f"&max_conns={_CONNECTIONS}&max_idle_conns={_CONNECTIONS}"
            up.append(stack.enter_context(_served(folder, dsn, algorithm)))
        es256, rs256 = up
        peer = Peer(
            NAME,
            es256.public,
            _PATHS,
            lambda: [es256.pid, *family(parent)],
            f"Ory Hydra {_version()}, {engine}",
            {"jwt": {"client_id": "service"}, "reference": {"client_id": "reference"}},
            _sign_in(es256.public),
            databases=lambda: family(parent),
            refresh_scope=_OFFLINE,
            admin=es256.admin,
            started=es256.started,
            tokens=FEW_TOKENS,
        )
        by_rs256 = replace(
            peer,
            place=rs256.public,
            pids=lambda: [rs256.pid, *family(parent)],
            cookies=_sign_in(rs256.public),
            signs="RS256",
        )
        yield replace(peer, by_rs256=by_rs256)


@contextmanager
def _served(folder: Path, dsn: str, algorithm: Algorithm) -> Generator[_Served]:
    public, admin = (Place("127.0.0.1", free_port()) for _ in range(2))
    with hydra_login(admin) as login:
        config = folder / "hydra.json"
        config.write_text(json.dumps(_config(dsn, public, admin, login)))
        # Schema, keys and clients first, as with all others.
        migrate = [_PROGRAM, "migrate", "sql", "up", "--yes", "--config", str(config)]
        subprocess.run([*migrate, "--read-from-env"], check=True, capture_output=True)
        with _running(folder, config, admin, "/health/ready"):
            for key_set in _KEY_SETS:
                key = json.loads(SigningKey.generate(algorithm).private_jwk())
                # ID tokens are signed by the first private key of the set.
                _tell(admin, "PUT", f"/admin/keys/{key_set}", {"keys": [key | {"use": "sig"}]})
            for client in _clients():
                _tell(admin, "POST", "/admin/clients", client)
        with _running(folder, config, public, _PATHS.discovery) as (pid, started):
            yield _Served(public, admin, pid, started)


@contextmanager
def _running(folder: Path, config: Path, address: Place, path: str) -> Generator[tuple[int, float]]:
    """The process, and the seconds until it answered `path` at `address`."""
    began = time.monotonic()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [_PROGRAM, "serve", "all", "--config", str(config), "--sqa-opt-out"],
            stdout=log,
            stderr=log,
        )
    try:
        yield process.pid, first_answer(address, path, began)
    finally:
        process.terminate()
        process.wait(60)


def _config(dsn: str, public: Place, admin: Place, login: str) -> Mapping[str, object]:
    return {
        "dsn": dsn,
        "log": {"level": "error"},
        "serve": {
            name: {"host": address.host, "port": address.port, "tls": {"enabled": False}}
            for name, address in (("public", public), ("admin", admin))
        },
        "urls": {
            # Its production mode requires this scheme of an issuer.
            "self": {"issuer": "https://hydra.example", "public": _url(public)},
            "login": f"{login}/login",
            "consent": f"{login}/consent",
        },
        "secrets": {"system": [SECRET]},
        "strategies": {"access_token": "opaque"},
        "ttl": {"access_token": "1h", "id_token": "1h", "refresh_token": "24h"},
        # Its default hashes secrets as if they were passwords.
        "oauth2": {"hashers": {"algorithm": "pbkdf2", "pbkdf2": {"iterations": 1}}},
        "webfinger": {"jwks": {"broadcast_keys": list(_KEY_SETS)}},
    }


def _clients() -> Sequence[Mapping[str, object]]:
    machine = {
        "client_secret": SECRET,
        "grant_types": ["client_credentials"],
        "token_endpoint_auth_method": "client_secret_post",
    }
    phone = {
        "client_id": "phone",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": [CALLBACK],
        "response_types": ["code"],
        "scope": f"{SCOPE} {_OFFLINE}",
        "token_endpoint_auth_method": "none",
    }
    return (
        machine | {"client_id": "service", "access_token_strategy": "jwt"},
        machine | {"client_id": "reference"},
        phone,
    )


def _tell(admin: Place, method: str, path: str, body: Mapping[str, object]) -> None:
    asking = HTTPConnection(admin.host, admin.port, timeout=_PATIENCE)
    try:
        asking.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = asking.getresponse()
        assert answer.status in {200, 201}, (path, answer.status, answer.read())
    finally:
        asking.close()


def _sign_in(address: Place) -> Mapping[str, str]:
    """The cookie of Ada's session; her login and her consent are remembered."""
    query = {"response_type": "code", "client_id": "phone", "redirect_uri": CALLBACK}
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    scope = {"scope": f"{SCOPE} {_OFFLINE}", "state": "of-the-bench"}
    browser = Browser(address)
    query_string = urlencode(query | scope | pkce, quote_via=quote)
    reply = asyncio.run(browser.open(f"{_PATHS.authorize}?{query_string}")).reply
    assert "code=" in location(reply), location(reply)
    name = "ory_hydra_session"
    return {name: browser.cookies[name]}


def _url(address: Place) -> str:
    return f"http://{address.host}:{address.port}"


def _version() -> str:
    output = subprocess.run(
        [_PROGRAM, "version"], check=True, capture_output=True, text=True
    ).stdout
    return output.partition("Version:")[2].split()[0].removeprefix("v")
