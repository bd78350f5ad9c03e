"""A server with several APIs, and a client that asks for them."""

import asyncio
import json
from base64 import urlsafe_b64decode
from urllib.parse import urlencode

from tests.support.live import CALLBACK, PASSWORD, LiveServers, secret_of
from valetkey.authorization.actions.clients import metadata_of as client_metadata_of
from valetkey.authorization.apis.operations import registrar_of
from valetkey.authorization.apis.rules import ApiRegistrar
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.api import Api, ApiMetadata
from valetkey.authorization.model.client import AccessTokenFormat, Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.testing.browser import UserAgent

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
CALENDAR = ApiMetadata(
    identifier="https://mcp.example.com/mcp",
    name="Calendar",
    scopes={"calendar:read": "see your calendar", "shared": "share"},
    machine_scopes=("calendar:sync",),
    access_token_lifetime=Lifetime(600),
    shares_scopes=True,
)
FILES = ApiMetadata(
    identifier="https://files.example.com",
    name="Files",
    scopes={"files:read": "see your files", "shared": "share"},
    access_token_format=AccessTokenFormat.REFERENCE,
    clients=frozenset(("web1", "spa1")),
    shares_scopes=True,
)
SIGNS_RSA = ApiMetadata(
    identifier="https://rsa.example.com",
    name="Rsa",
    scopes={"rsa:read": "see your keys"},
    signing_algorithm=Algorithm.RS256,
)

TOOL = ApiMetadata(identifier="https://tool.example.com/mcp", name="Tool")
"""An API that declares no scopes."""


def claims(token: str) -> dict[str, object]:
    """What a JWT says; its signature is not looked at."""
    payload = token.split(".")[1]
    content: dict[str, object] = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return content


class Apis:
    """The world with more APIs, each with a credential."""

    def __init__(self, world: LiveServers) -> None:
        self.world = world
        self.ids = {
            metadata.identifier: self.declare(metadata)
            for metadata in (CALENDAR, FILES, SIGNS_RSA, TOOL)
        }
        self.client("bot1", ("client_credentials",), ("calendar:sync",))

    @property
    def registrar(self) -> ApiRegistrar:
        servers = self.world.servers
        foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
        asyncio.run(foundation.store.engine.close())
        return registrar_of(foundation.services, "cli")

    def declare(self, metadata: ApiMetadata) -> str:
        registrar, now = self.registrar, self.world.servers.clock.now()
        api_id = f"api_{metadata.name}"

        def work(tx: Transaction) -> object:
            made = registrar.register(tx, metadata, now, api_id=api_id)
            if isinstance(made, tuple):
                return made
            credential = tx.clients.find(api_id)
            assert credential is not None
            secret = Secret(secret_of(api_id))
            return registrar.credentials.issue_secret(tx, credential, secret, now, others_live=None)

        assert self.world.servers.write(work) == ()
        return api_id

    def client(
        self,
        client_id: str,
        grant_types: tuple[str, ...],
        scopes: tuple[str, ...],
        *,
        key_set: str = "",
    ) -> None:
        """Register a client that may have machine scopes of these APIs; with keys, no secret."""
        metadata = ClientMetadata(
            client_id, grant_types=grant_types, scopes=scopes, key_set=key_set
        )
        registrar, now = self.registrar.credentials, self.world.servers.clock.now()
        secret = None if key_set else Secret(secret_of(client_id))
        made = self.world.servers.write(
            lambda tx: registrar.register(tx, metadata, now, client_id=client_id, secret=secret)
        )
        assert not isinstance(made, tuple), made

    def change(self, identifier: str, **changes: object) -> None:
        registrar, now = self.registrar, self.world.servers.clock.now()

        def work(tx: Transaction) -> object:
            api = tx.apis.find_to_change(self.ids[identifier])
            assert api is not None
            metadata = replace(api.metadata, **changes)  # type: ignore[arg-type]
            return registrar.change(tx, api, metadata, now)

        assert isinstance(self.world.servers.write(work), Api)

    def require(self, client_id: str, *scopes: str) -> None:
        """Make these scopes of the client required."""
        registrar, now = self.registrar.credentials, self.world.servers.clock.now()

        def work(tx: Transaction) -> object:
            client = tx.clients.find(client_id)
            assert client is not None
            metadata = replace(client_metadata_of(client), required_scopes=scopes)
            return registrar.change(tx, client, metadata, now)

        assert isinstance(self.world.servers.write(work), Client)

    def switch(self, identifier: str, *, on: bool) -> None:
        registrar, now = self.registrar, self.world.servers.clock.now()

        def work(tx: Transaction) -> bool:
            api = tx.apis.find_to_change(self.ids[identifier])
            assert api is not None
            return (registrar.enable if on else registrar.disable)(tx, api, now)

        assert self.world.servers.write(work)

    def ask(self, resources: tuple[str, ...], scope: str, **parameters: str) -> str:
        """A code for these APIs, allowed by alice; or the error, or the text of the page."""
        query = urlencode(
            [
                ("response_type", parameters.get("response_type", "code")),
                ("client_id", parameters.get("client_id", "web1")),
                ("redirect_uri", CALLBACK),
                ("state", "xyz"),
                ("nonce", parameters.get("nonce", "")),
                *([("scope", scope)] if scope else []),
                *(("resource", resource) for resource in resources),
                *(
                    (name, parameters[name])
                    for name in ("audience", "request")
                    if name in parameters
                ),
            ]
        )
        person = UserAgent(self.world.auth)
        page = person.open(f"{self.world.auth}/oauth/authorize?{query}")
        if not page.location:
            page = person.sign_in(page, "alice", PASSWORD)
        if not page.location:
            page = person.allow(page)
        response = page.redirect_parameters
        return (
            response.get("code")
            or response.get("access_token")
            or response.get("error")
            or page.text
        )

    def tokens(self, resources: tuple[str, ...], scope: str, **parameters: str) -> dict[str, str]:
        answer = self.world.exchange(self.ask(resources, scope), **parameters)
        answer.ok()
        return answer.json

    def inspect(self, token: str, identifier: str) -> dict[str, object]:
        """What the API with this identifier hears of a token."""
        return dict(self.world.introspect(token, self.ids[identifier]))
