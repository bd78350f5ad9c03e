"""Valetkey itself, on SQLite with synchronous=FULL or on PostgreSQL, all of it switched on."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote, urlencode

import apsw

from bench.peers.peer import PUBLIC, SCOPE, Paths, Peer
from bench.peers.postgres import postgres
from bench.servers import DISCOVERY, family, start
from bench.workloads import CALLBACK, CHALLENGE, PASSWORD, Place
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent

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
        parameters = {"resource": resource} if resource else {}
        servers = stack.enter_context(
            start(directory, workers=workers, databases=urls, register=register)
        )
        parents.append(servers.parent)
        address = Place.of(servers.auth)
        ada = UserAgent(servers.auth)
        _allow(ada, servers.auth, "ada", scope, parameters)
        peer = Peer(
            ON_POSTGRESQL if on_postgresql else ON_SQLITE,
            address,
            _PATHS,
            lambda: [pid for parent in parents for pid in family(parent)],
            f"valetkey {version('valetkey')}, {engine}, uvicorn {version('uvicorn')}, "
            f"cryptography {version('cryptography')}",
            {"jwt": {"client_id": "service"} | parameters, "reference": {"client_id": "reference"}},
            dict(ada.cookies),
            asked=parameters,
            scope=scope,
            api=Place.of(servers.api),
            started=servers.answered,
            databases=lambda: [pid for parent in parents[:-1] for pid in family(parent)],
        )
        if not register:
            _allow(ada, servers.auth, "ada", scope, parameters, "phone-rs256")
            by_rs256 = replace(peer, public="phone-rs256", signs="RS256")
            peer = replace(peer, by_rs256=by_rs256, ordinary=_ordinary(servers.auth))
        yield peer


def _ordinary(url: str) -> dict[str, str]:
    """The cookies of Grace, who is signed in on three devices and opened an app on each."""
    person = UserAgent(url)
    for app in ("phone", "phone-rs256", "tablet"):
        person = UserAgent(url)
        _allow(person, url, "grace", SCOPE, {}, app)
    return dict(person.cookies)


def _allow(
    person: UserAgent,
    url: str,
    username: str,
    scope: str,
    parameters: Mapping[str, str],
    app: str = PUBLIC,
) -> None:
    """Sign in unless `person` is, and allow the app everything that it will ask."""
    query = urlencode({"client_id": app, "scope": scope, **parameters}, quote_via=quote)
    page = person.open(
        f"{url}/oauth/authorize?response_type=code&redirect_uri={CALLBACK}&{query}"
        f"&code_challenge={CHALLENGE}&code_challenge_method=S256"
    )
    if any(button.id == "sign-in" for button in page.buttons):
        page = person.sign_in(page, username, PASSWORD)
    page = person.allow(page)
    assert page.redirect_parameters["code"], page.text
