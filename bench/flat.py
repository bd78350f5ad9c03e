"""What introspection costs as APIs and groups are declared: it must stay flat.

`python -m bench.flat` introspects tokens of one API with 1 API declared, then with 1,000 APIs and
100,000 groups, and prints CPU-microseconds for each request, the client's part included. With
`--postgresql` the processes of PostgreSQL count too.
"""

import argparse
import asyncio
import http.client
import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from urllib.parse import urlencode, urlsplit

import psycopg

from bench.peers.peer import worked
from bench.peers.postgres import postgres
from bench.processes import ended_together
from bench.servers import family
from valetkey.authorization.apis.operations import registrar_of
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.api import ApiMetadata
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import AuthorizationSettings, Settings
from valetkey.kernel.secret import Secret
from valetkey.testing.server import Servers

_SECRET = "a-secret-that-is-long-enough-to-count-as-one"
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU-microseconds of one introspection: of a token seen for the first time, and again."""

    first: float
    again: float


@dataclass(frozen=True, slots=True)
class Flatness:
    """What introspection cost before and after everything was declared."""

    before: Cost
    after: Cost


def measure(
    apis: int, groups: int, tokens: int, rounds: int, *, on_postgresql: bool = False
) -> Flatness:
    """Measure with one API, then with `apis` APIs and `groups` groups."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        settings, parents = Settings(), list[int]()
        if on_postgresql:
            urls, parent, _ = stack.enter_context(postgres())
            settings = Settings(authorization=AuthorizationSettings(database=urls[0]))
            parents.append(parent)
        servers = stack.enter_context(Servers(directory, settings=settings, with_resource=False))

        def used() -> float:
            return process_time() + sum(
                worked(pid) for parent_pid in parents for pid in family(parent_pid)
            )

        _declare(servers, 0, 1)
        _register(servers)
        if on_postgresql:
            _vacuum(settings.authorization.database)
        before = _cost(servers, tokens, rounds, used)
        for start in range(1, apis, 100):
            _declare(servers, start, min(apis, start + 100))
        for start in range(0, groups, _BATCH):
            _add_groups(servers, start, min(groups, start + _BATCH))
        if on_postgresql:
            _vacuum(settings.authorization.database)
        return Flatness(before, _cost(servers, tokens, rounds, used))


def _vacuum(url: str) -> None:
    """Do what autovacuum and the checkpointer would otherwise do while requests are measured."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def _register(servers: Servers) -> None:
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    asyncio.run(foundation.store.engine.close())
    registrar, now = foundation.registrar("cli"), servers.clock.now()
    metadata = ClientMetadata("Bot", grant_types=("client_credentials",), scopes=("api0:sync",))
    made = servers.write(
        lambda tx: registrar.register(tx, metadata, now, client_id="bot", secret=Secret(_SECRET))
    )
    assert not isinstance(made, tuple), made


def _declare(servers: Servers, start: int, stop: int) -> None:
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    asyncio.run(foundation.store.engine.close())
    registrar, now = registrar_of(foundation.services, "cli"), servers.clock.now()

    def work(tx: Transaction) -> None:
        for number in range(start, stop):
            metadata = ApiMetadata(
                f"https://api{number}.example.com/v1",
                f"API {number}",
                {f"api{number}:read": "read it"},
                (f"api{number}:sync",),
            )
            api_id = f"api_{number}"
            assert not isinstance(registrar.register(tx, metadata, now, api_id=api_id), tuple)
            credential = tx.clients.find(api_id)
            assert credential is not None
            registrar.credentials.issue_secret(
                tx, credential, Secret(_SECRET + api_id), now, others_live=None
            )

    servers.write(work)


def _add_groups(servers: Servers, start: int, stop: int) -> None:
    now = servers.clock.now()

    def work(tx: Transaction) -> None:
        for number in range(start, stop):
            tx.db.run(
                "INSERT INTO user_groups (id, name, description, parent_id, created_at)"
                " VALUES (:id, :name, '', '', :now)",
                id=f"grp_{number}",
                name=f"group-{number}",
                now=now,
            )

    servers.write(work)


def _cost(servers: Servers, tokens: int, rounds: int, used: Callable[[], float]) -> Cost:
    own = [_token(servers) for _ in range(tokens)]
    for token in own[: tokens // 4]:
        _introspect(servers, [token], used)
    rest = own[tokens // 4 :]
    first = _introspect(servers, rest, used)
    again = min(_introspect(servers, rest, used) for _ in range(rounds))
    return Cost(first, again)


def _token(servers: Servers) -> str:
    form = {
        "grant_type": "client_credentials",
        "client_id": "bot",
        "client_secret": _SECRET,
        "resource": "https://api0.example.com/v1",
    }
    with closing(_connect(servers)) as connection:
        return str(_post(connection, "/oauth/token", form)["access_token"])


def _introspect(servers: Servers, tokens: list[str], used: Callable[[], float]) -> float:
    began = used()
    with closing(_connect(servers)) as connection:
        for token in tokens:
            form = {"token": token, "client_id": "api_0", "client_secret": f"{_SECRET}api_0"}
            assert _post(connection, "/oauth/introspect", form)["active"] is True
    return (used() - began) / len(tokens) * 1_000_000


def _connect(servers: Servers) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(servers.auth_url).netloc, timeout=60)


def _post(
    connection: http.client.HTTPConnection, path: str, form: dict[str, str]
) -> dict[str, object]:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    connection.request("POST", path, urlencode(form), headers)
    with connection.getresponse() as answer:
        body: dict[str, object] = json.loads(answer.read())
    return body


def main() -> None:
    """Measure as the command line says and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apis", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--postgresql", action="store_true")
    arguments = parser.parse_args()
    flatness = measure(
        arguments.apis,
        arguments.groups,
        arguments.tokens,
        arguments.rounds,
        on_postgresql=arguments.postgresql,
    )
    for name, cost in (("1 API", flatness.before), (f"{arguments.apis:,} APIs", flatness.after)):
        print(f"{name}: {cost.first:.0f} us for a new token, {cost.again:.0f} us again")


if __name__ == "__main__":
    with ended_together():
        main()
