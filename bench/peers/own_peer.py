"""Valetkey itself, on SQLite with synchronous=FULL or on PostgreSQL, all of it switched on."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote, urlencode

import apsw

from bench.peers.peer import SCOPE, Paths, Peer
from bench.peers.postgres import postgres
from bench.servers import DISCOVERY, family, start
from bench.workloads import CALLBACK, CHALLENGE, PASSWORD, Place
from valetkey.testing.person import Person

ON_SQLITE = "Valetkey, SQLite FULL"
ON_POSTGRESQL = "Valetkey, PostgreSQL"
_PATHS = Paths(
    token="/oauth/token",
    machine_token="/token",
    authorize="/oauth/authorize",
    introspection="/oauth/introspect",
    userinfo="/oauth/userinfo",
    keys="/oauth/jwks",
    discovery=DISCOVERY,
)


@contextmanager
def valetkey(
    directory: Path,
    *,
    on_postgresql: bool = False,
    workers: int = 1,
    register: str = "",
    resource: str = "",
    scope: str = SCOPE,
) -> Generator[Peer]:
    """Start both servers, so many workers each; their processes and those of PostgreSQL count.

    `register` is applied in place of the bench's own. Tokens are requested for the API `resource`,
    the default one without it; users allow the app `scope`.
    """
    with ExitStack() as stack:
        urls: list[str] = []
        parents: list[int] = []
        engine = f"SQLite {apsw.sqlite_lib_version()}"
        if on_postgresql:
            urls, parent, engine = stack.enter_context(postgres())
            parents.append(parent)
        asked = {"resource": resource} if resource else {}
        servers = stack.enter_context(
            start(directory, workers=workers, databases=urls, register=register)
        )
        parents.append(servers.parent)
        place = Place.of(servers.auth)
        yield Peer(
            ON_POSTGRESQL if on_postgresql else ON_SQLITE,
            place,
            _PATHS,
            lambda: [pid for parent in parents for pid in family(parent)],
            f"valetkey {version('valetkey')}, {engine}, uvicorn {version('uvicorn')}, "
            f"cryptography {version('cryptography')}",
            {"jwt": {"client_id": "service"} | asked, "reference": {"client_id": "reference"}},
            _allowed(servers.auth, scope, asked),
            asked=asked,
            scope=scope,
            api=Place.of(servers.api),
            started=servers.answered,
        )


def _allowed(url: str, scope: str, asked: dict[str, str]) -> dict[str, str]:
    """The cookies of Ada, who is signed in and allows the app everything it will ask."""
    query = urlencode({"scope": scope} | asked, quote_via=quote)
    person = Person(url)
    page = person.open(
        f"{url}/oauth/authorize?response_type=code&client_id=phone"
        f"&redirect_uri={CALLBACK}&{query}"
        f"&code_challenge={CHALLENGE}&code_challenge_method=S256"
    )
    page = person.allow(person.sign_in(page, "ada", PASSWORD))
    assert page.told["code"], page.text
    return dict(person.cookies)
