"""Apps whose keys and requests lie on servers of their own, and a server that may ask them."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests

from tests.support.wait import CEILING
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.rules import Network
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwt import sign
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

CALLBACK = "https://app.example/cb"
SECRET = "a secret of an app that is used to sign with it"
TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_GRANTS = ("authorization_code", "client_credentials")
_NUMBERS = count()


def fresh_key() -> SigningKey:
    """A key that nobody knows yet."""
    return SigningKey.generate(Algorithm.ES256)


def jwks(*keys: SigningKey) -> bytes:
    """The document with the public halves."""
    return KeySet.of(*(key.public for key in keys)).document()


@dataclass
class Apps:
    """The server under attack, and what its apps do."""

    servers: Servers
    key: SigningKey = field(default_factory=fresh_key)

    @property
    def auth(self) -> str:
        return self.servers.auth_url

    def app(self, client_id: str, secret: str = "", /, **openid: object) -> None:
        """An app registered by the rules, with keys by value unless it says where they are."""
        registration = replace(OpenIdRegistration.NOTHING, **openid)  # type: ignore[arg-type]
        by_value = not registration.jwks_uri and not secret
        metadata = ClientMetadata(
            name=client_id,
            redirect_uris=(CALLBACK,),
            grant_types=_GRANTS,
            scopes=("read",),
            key_set=jwks(self.key).decode() if by_value else "",
            openid=registration,
        )
        self.servers.register_client(metadata, client_id, secret or None)

    def plant(self, client_id: str, **openid: object) -> None:
        """Change what is stored of an app, whatever the rules would say."""
        registration = replace(OpenIdRegistration.NOTHING, **openid)  # type: ignore[arg-type]

        def work(tx: Transaction) -> bool:
            there = tx.clients.find(client_id)
            return there is not None and tx.clients.change(replace(there, openid=registration))

        assert self.servers.write(work)

    def claims(self, client_id: str, /, **changes: object) -> dict[str, object]:
        """What a client assertion says; None leaves out."""
        now = self.servers.clock.now()
        claims: dict[str, object] = {
            "iss": client_id,
            "sub": client_id,
            "aud": self.auth,
            "iat": now,
            "exp": now + 60,
            "jti": f"jti {next(_NUMBERS)}",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def assertion(self, client_id: str, key: SigningKey | None = None, **changes: object) -> str:
        return sign(self.claims(client_id, **changes), key or self.key, typ="JWT")

    def prove(self, client_id: str, assertion: str, **parameters: str) -> requests.Response:
        """A token request with an assertion."""
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_assertion": assertion,
            "client_assertion_type": TYPE,
            **parameters,
        }
        return self.post(form)

    def post(
        self, form: Mapping[str, str], auth: tuple[str, str] | None = None
    ) -> requests.Response:
        # CA-23: there is an answer, whatever the client's server does.
        return requests.post(f"{self.auth}/oauth/token", data=form, auth=auth, timeout=CEILING)

    def ask(self, client_id: str, /, **parameters: str) -> dict[str, str]:
        """Where an authorization request ends that asks nobody: the answer's parameters.

        With "page" the status of a page instead.
        """
        request = {"client_id": client_id, "response_type": "code", "prompt": "none", **parameters}
        query = urlencode({name: value for name, value in request.items() if value})
        answer = requests.get(
            f"{self.auth}/oauth/authorize?{query}", allow_redirects=False, timeout=CEILING
        )
        location = answer.headers.get("location", "")
        if not location:
            return {"page": str(answer.status_code), "text": answer.text}
        parts = urlsplit(location)
        return {"at": location.partition("?")[0], **dict(parse_qsl(parts.query))}


@contextmanager
def apps(directory: Path, *allow: Network) -> Generator[Apps]:
    """A server that may ask apps in these networks."""
    settings = Settings(fetch=FetchSettings(allow=allow))
    with Servers(directory, settings=settings, with_resource=False) as servers:
        yield Apps(servers)
