"""`make interop`: a Spring Boot client by its preset, and an API as the documentation shows it."""

import asyncio
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page

from tests.clients.presets.site import free_port, register, running, sign_in
from tests.documents.pages import blocks
from valetkey.authorization.actions.apis import ApiMetadata, ApiRegistrar
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.kernel.secret import Secret
from valetkey.testing.server import Servers

HERE = Path(__file__).parent / "spring"
PAGE = "docs/how-to/apps/presets.md"
SECRET = "a secret of this test, with more than 32"


def build(folder: Path, sources: Mapping[str, str]) -> Sequence[str]:
    """Build an application of these classes: the command that runs it."""
    code = folder / "src/main/java/example"
    code.mkdir(parents=True)
    for name, text in sources.items():
        (code / name).write_text(f"package example;\n{text}")
    shutil.copy(HERE / "pom.xml", folder)
    command = ["mvn", "--quiet", "--batch-mode", "package"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout
    return ["java", "-jar", "target/app-1.jar"]


def test_spring_boot_signs_in_and_out(servers: Servers, tab: Page, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://localhost:{port}"
    app = register(servers, "spring-boot", f"{url}/login/oauth2/code/valetkey")
    app.write(tmp_path)
    security = "SecurityConfiguration.java"
    sources = {security: app.files[security], "App.java": (HERE / "App.java").read_text()}
    command = [*build(tmp_path, sources), f"--server.port={port}"]
    with running(command, tmp_path, f"{url}/login", dict(os.environ)):
        tab.goto(f"{url}/profile")
        sign_in(tab, servers)
        tab.wait_for_url(f"{url}/profile**")
        assert tab.inner_text("body") == "Ada Lovelace ada@example.com"
        tab.goto(f"{url}/logout")
        tab.click("button[type=submit]")
        tab.wait_for_url(lambda at: at.startswith(f"{servers.auth_url}/oauth/logout"))
        tab.click("#sign-out")
        tab.wait_for_url(f"{servers.auth_url}/**")
        assert tab.locator("#sign-in").count(), "the app asks to sign in again"


def test_spring_resource_server_takes_tokens_for_its_api_alone(
    servers: Servers, tmp_path: Path
) -> None:
    calendar, files = "https://calendar.example.com", "https://files.example.com"
    with ThreadPoolExecutor() as another_thread:  # This one has the loop of the browser.
        another_thread.submit(declare, servers, calendar, files).result()
    code = {each.language: each.code for each in blocks(PAGE)}
    config = tmp_path / "src/main/resources/application.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(code["yaml"].replace("https://auth.example.com", servers.auth_url))
    sources = {"ApiSecurity.java": code["text"], "Api.java": (HERE / "Api.java").read_text()}
    port = free_port()
    url = f"http://localhost:{port}/events"
    command = [*build(tmp_path, sources), f"--server.port={port}"]
    with running(command, tmp_path, url, dict(os.environ)):
        assert ask(url, token(servers, calendar)) == ["SCOPE_sync"]
        assert ask(url, token(servers, files)) == 401
        assert ask(url, "no token") == 401


def declare(servers: Servers, *identifiers: str) -> None:
    """Declare these APIs, and register the client `robot` for their machine scope."""
    now = servers.clock.now()
    for number, identifier in enumerate(identifiers):
        said = ApiMetadata(
            identifier=identifier,
            name=f"Api {number}",
            machine_scopes=("sync",),
            shares_scopes=True,
        )
        made = servers.write(
            partial(_registrar(servers).register, wanted=said, now=now, api_id=said.name)
        )
        assert isinstance(made, Api), made
    robot = ClientMetadata("Robot", grant_types=("client_credentials",), scopes=("sync",))
    clients, secret = _registrar(servers).credentials, Secret(SECRET)
    registered = servers.write(
        lambda tx: clients.register(tx, robot, now, client_id="robot", secret=secret)
    )
    assert isinstance(registered, Client), registered


def _registrar(servers: Servers) -> ApiRegistrar:
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    asyncio.run(foundation.store.engine.close())
    return foundation.api_registrar("cli")


def token(servers: Servers, resource: str) -> str:
    """Get a token for the API by client credentials."""
    form = {"grant_type": "client_credentials", "resource": resource}
    request = urllib.request.Request(f"{servers.auth_url}/oauth/token", urlencode(form).encode())
    pair = b64encode(f"robot:{SECRET}".encode()).decode()
    request.add_header("Authorization", f"Basic {pair}")
    with urllib.request.urlopen(request) as response:
        return str(json.load(response)["access_token"])


def ask(url: str, bearer: str) -> object:
    """Call the API with a token: what it answers, or the status of its error."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {bearer}"})
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
