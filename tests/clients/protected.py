"""An issuer with two APIs, and APIs that run the code that the console shows for one of them."""

import asyncio
import json
import os
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bench.ports import free_port
from tests.clients.presets.site import running
from valetkey.authorization.apis.operations import registrar_of
from valetkey.authorization.apis.pages import FRAMEWORKS
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.api import Api, ApiMetadata
from valetkey.authorization.model.client import Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.kernel.secret import Secret
from valetkey.testing.server import Servers

SECRET = "a secret of this test, with more than 32"
READ, SYNC = "calendar:read", "calendar:sync"


@dataclass(frozen=True)
class Issuer:
    """The issuer, and the API that is protected."""

    servers: Servers
    calendar: Api

    def token(self, scope: str, resource: str = "") -> str:
        """Get a token by client credentials, for the calendar unless another API is named."""
        form = {
            "grant_type": "client_credentials",
            "scope": scope,
            "resource": resource or self.calendar.identifier,
        }
        url = f"{self.servers.auth_url}/oauth/token"
        request = urllib.request.Request(url, urlencode(form).encode())
        pair = b64encode(f"robot:{SECRET}".encode()).decode()
        request.add_header("Authorization", f"Basic {pair}")
        with urllib.request.urlopen(request) as response:
            return str(json.load(response)["access_token"])

    def write(self, name: str, folder: Path, ports: Mapping[str, int]) -> None:
        """Write the code of a framework, with these ports in place of those it names."""
        for file in FRAMEWORKS[name].code(self.calendar, self.servers.auth_url):
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.name).write_text(with_ports(file.text, ports))

    def refuses_others(self, url: str) -> None:
        """Assert that the API at `url` takes a token for it with its scope, and no other."""
        status, answer = ask(url, self.token(READ))
        assert (status, answer["client"]) == (200, "robot"), answer
        assert ask(url, self.token(SYNC))[0] == 403
        assert ask(url, self.token(READ, "https://files.example.com"))[0] == 401
        assert ask(url, "no.token.atall")[0] == 401
        assert ask(url)[0] == 401


@contextmanager
def issuer(folder: Path) -> Generator[Issuer]:
    """Declare both APIs, and register a client that may use them."""
    with Servers(folder, with_resource=False) as servers:
        foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
        # This thread may have the event loop of a browser.
        with ThreadPoolExecutor() as another_thread:
            another_thread.submit(asyncio.run, foundation.store.engine.close()).result()
        apis, now = registrar_of(foundation.services, "cli"), servers.clock.now()

        def declare(identifier: str, api_id: str) -> Api:
            metadata = ApiMetadata(
                identifier=identifier,
                name=api_id,
                scopes={READ: "see your calendar"},
                machine_scopes=(READ, SYNC),
                shares_scopes=True,
            )
            api = servers.write(lambda tx: apis.register(tx, metadata, now, api_id=api_id))
            assert isinstance(api, Api), api
            return api

        calendar = declare("https://calendar.example.com", "api_calendar")
        declare("https://files.example.com", "api_files")
        credential = servers.write(lambda tx: tx.clients.find(calendar.id))
        assert credential is not None
        assert not servers.write(
            lambda tx: apis.credentials.issue_secret(
                tx, credential, Secret(SECRET), now, others_live=None
            )
        )
        robot = ClientMetadata("Robot", grant_types=("client_credentials",), scopes=(READ, SYNC))
        made = servers.write(
            lambda tx: apis.credentials.register(
                tx, robot, now, client_id="robot", secret=Secret(SECRET)
            )
        )
        assert isinstance(made, Client), made
        yield Issuer(servers, calendar)


@contextmanager
def protected(it: Issuer, name: str, command: Sequence[str | Path], folder: Path) -> Generator[str]:
    """The address of an API with the code of this framework, run by this command."""
    port = free_port()
    it.write(name, folder, {"8080": port})
    url = f"http://127.0.0.1:{port}/"
    ours = [with_ports(str(word), {"8080": port}) for word in command]
    with running(ours, folder, url, {**os.environ, "API_SECRET": SECRET}):
        yield url


def with_ports(text: str, ports: Mapping[str, int]) -> str:
    """Return the text with each of these ports replaced."""
    return re.sub("|".join(ports), lambda match: str(ports[match[0]]), text)


def ask(url: str, token: str = "") -> tuple[int, Mapping[str, str]]:
    """Call an API: the status, and what it answers if that is 200."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}
