"""Valetkey itself, on SQLite with synchronous=FULL or on PostgreSQL, all of it switched on."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from bench.peers.peer import Paths, Peer
from bench.servers import family, start
from bench.workloads import CALLBACK, CHALLENGE, PASSWORD, Place
from valetkey.testing.person import Person

_PATHS = Paths(
    token="/oauth/token",
    machine_token="/token",
    authorize="/oauth/authorize",
    introspection="/oauth/introspect",
    userinfo="/oauth/userinfo",
    keys="/oauth/jwks",
    discovery="/.well-known/openid-configuration",
)


@contextmanager
def valetkey(directory: Path) -> Generator[Peer]:
    """It, with one worker; the resource server is up and idle."""
    with start(directory, workers=1) as servers:
        person = Person(servers.auth)
        page = person.open(
            f"{servers.auth}/oauth/authorize?response_type=code&client_id=phone"
            f"&redirect_uri={CALLBACK}&scope=openid%20notes:read"
            f"&code_challenge={CHALLENGE}&code_challenge_method=S256"
        )
        page = person.allow(person.sign_in(page, "ada", PASSWORD))
        assert page.told["code"], page.text
        yield Peer(
            "Valetkey, SQLite FULL",
            Place.of(servers.auth),
            _PATHS,
            lambda: family(servers.parent),
            f"valetkey {version('valetkey')}",
            {"jwt": {"client_id": "service"}, "reference": {"client_id": "reference"}},
            dict(person.cookies),
        )
