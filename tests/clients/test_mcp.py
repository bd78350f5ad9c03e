"""MCP servers of the how-to, and the official SDKs' clients, which know nothing but a URL."""

import asyncio
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import httpx2
import pytest
import uvicorn
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from tests.clients.node.library import Script
from tests.clients.presets.site import register
from tests.clients.site import UID
from tests.documents.pages import blocks
from tests.fetch.canary import LOOPBACK, certificate
from tests.support.live import PASSWORD
from tests.support.pages import Page, pages
from tests.support.wait import CEILING, wait_until
from valetkey.authorization.apis.operations import registrar_of
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.api import Api, ApiMetadata
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import RegistrationMode, RegistrationSettings, Settings
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers
from valetkey.web.connection.bind import bind

PAGE = "docs/how-to/apis/protect-an-mcp-server.md"
CALLBACK = "http://127.0.0.1:33418/callback"
SCOPE = "calendar:read"
_GRANTS = {"grant_types": ["authorization_code", "refresh_token"]}
FRAMEWORKS = ("calendar_server.py", "calendar_fastmcp.py")


@dataclass(frozen=True)
class Hosted:
    """The issuer, and the MCP server of each framework by the file that the page shows.

    `document` is the URL of the metadata of a client that did not register.
    """

    servers: Servers
    urls: dict[str, str]
    document: str

    def sign_in(self, url: str) -> dict[str, str]:
        """Ada opens `url`, signs in and allows: what the client is told."""
        person = UserAgent(self.servers.auth_url)
        page = person.allow(person.sign_in(person.open(url), "ada", PASSWORD))
        assert page.location.startswith(CALLBACK), page.text
        return dict(page.redirect_parameters)


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """What `hosting` runs."""
    with hosting(tmp_path_factory.mktemp("mcp")) as hosted_servers:
        yield hosted_servers


@contextmanager
def hosting(directory: Path) -> Generator[Hosted]:
    """Run an issuer at which anyone may register, with both servers of the page."""
    shown = certificate(directory, "localhost")
    settings = Settings(
        registration=RegistrationSettings(mode=RegistrationMode.OPEN, metadata_documents=True),
        fetch=FetchSettings(allow=LOOPBACK, ca_file=str(shown.ca_file)),
    )
    with ExitStack() as stack:
        host = stack.enter_context(pages(shown.context))
        document = f"{host.url}/client.json"
        metadata = {"client_id": document, "client_name": "Editor", "redirect_uris": [CALLBACK]}
        host.at["/client.json"] = Page(json.dumps({**metadata, **_GRANTS}).encode())
        servers = stack.enter_context(Servers(directory, settings=settings, with_resource=False))
        servers.register_user("ada", PASSWORD, uid=UID)
        urls = {
            framework: stack.enter_context(_framework(servers, framework))
            for framework in FRAMEWORKS
        }
        yield Hosted(servers, urls, document)


@contextmanager
def _framework(servers: Servers, title: str) -> Generator[str]:
    """Run the file that the page shows, with the addresses of this test."""
    sock = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
    _declare(servers, url, title)
    (block,) = (code_block for code_block in blocks(PAGE) if code_block.title == title)
    code = block.code.replace("http://127.0.0.1:8400", servers.auth_url)
    names: dict[str, Any] = {}
    exec(compile(code.replace("http://127.0.0.1:8000/mcp", url), PAGE, "exec"), names)
    server = uvicorn.Server(uvicorn.Config(names["app"], log_level="error", loop="asyncio"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        wait_until(lambda: server.started, "the MCP server never began")
        yield url
    finally:
        server.should_exit = True
        thread.join(CEILING)
        sock.close()


def _declare(servers: Servers, url: str, name: str) -> None:
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    registrar = registrar_of(foundation.services, "test")
    asyncio.run(foundation.store.engine.close())
    metadata = ApiMetadata(url, name, scopes={SCOPE: "see your calendar"}, shares_scopes=True)
    api = servers.write(
        lambda tx: registrar.register(tx, metadata, servers.clock.now(), api_id=f"api_{name}")
    )
    assert isinstance(api, Api), api


class Storage:
    """What the Python client remembers: nothing else connects it with the issuer."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def _whoami(
    url: str, hosted: Hosted | None, storage: Storage, document: str | None = None
) -> str:
    response: dict[str, str] = {}

    async def redirect(address: str) -> None:
        assert hosted is not None, "nobody should be asked"
        response.update(await asyncio.to_thread(hosted.sign_in, address))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=response["code"], state=response["state"], iss=response["iss"]
        )

    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "Assistant", "redirect_uris": [CALLBACK]}
    )
    provider = OAuthClientProvider(
        url, metadata, storage, redirect, callback, client_metadata_url=document
    )
    async with (
        httpx2.AsyncClient(auth=provider, timeout=CEILING) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        content = (await client.call_tool("whoami", {})).content[0]
        return str(getattr(content, "text", content))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_python_client_signs_in_by_url_alone(hosted: Hosted, framework: str) -> None:
    url, storage = hosted.urls[framework], Storage()
    assert asyncio.run(_whoami(url, hosted, storage)) == str(UID)
    assert storage.tokens is not None
    assert storage.tokens.scope == f"{SCOPE} offline_access"
    # The same client, restarted, needs no user; the other server refuses its token.
    assert asyncio.run(_whoami(url, None, storage)) == str(UID)
    other = next(address for address in hosted.urls.values() if address != url)
    assert _refused(other, storage.tokens.access_token) == (401, "invalid_token")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_typescript_client_signs_in_by_url_alone(hosted: Hosted, framework: str, node: str) -> None:
    url = hosted.urls[framework]
    with Script(node, "mcp.mjs") as script:
        begun = script.ask({"step": "begin", "url": url, "callback": CALLBACK})
        response = hosted.sign_in(str(begun["url"]))
        answer = script.ask(
            {"step": "finish", "url": url, "code": response["code"], "tool": "whoami"}
        )
    assert answer == {"text": str(UID), "scope": SCOPE}


def test_python_client_signs_in_as_its_preset_registered_it(hosted: Hosted) -> None:
    registered = register(hosted.servers, "mcp-client", CALLBACK)
    url, storage = hosted.urls[FRAMEWORKS[0]], Storage()
    (printed,) = registered.files.values()
    storage.client = OAuthClientInformationFull.model_validate_json(printed)
    assert asyncio.run(_whoami(url, hosted, storage)) == str(UID)
    assert storage.client.client_id == registered.client_id


def test_python_client_signs_in_with_its_metadata_url(hosted: Hosted) -> None:
    url, storage = hosted.urls[FRAMEWORKS[0]], Storage()
    assert asyncio.run(_whoami(url, hosted, storage, hosted.document)) == str(UID)
    assert storage.client is not None
    assert storage.client.client_id == hosted.document


def test_typescript_client_signs_in_with_its_metadata_url(hosted: Hosted, node: str) -> None:
    url, document = hosted.urls[FRAMEWORKS[0]], hosted.document
    with Script(node, "mcp.mjs") as script:
        begun = script.ask({"step": "begin", "url": url, "callback": CALLBACK, "id": document})
        address = str(begun["url"])
        assert parse_qs(urlsplit(address).query)["client_id"] == [document]
        response = hosted.sign_in(address)
        answer = script.ask(
            {"step": "finish", "url": url, "code": response["code"], "tool": "whoami"}
        )
    assert answer == {"text": str(UID), "scope": SCOPE}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_unauthorized_response_names_the_resource_metadata(hosted: Hosted, framework: str) -> None:
    url = hosted.urls[framework]
    parts = urlsplit(url)
    metadata = f"http://{parts.netloc}/.well-known/oauth-protected-resource/mcp"
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, b"{}"), timeout=CEILING)
    refused.value.close()
    challenge = refused.value.headers["www-authenticate"]
    assert refused.value.code == 401
    assert f'resource_metadata="{metadata}"' in challenge
    assert f'scope="{SCOPE}"' in challenge
    document = json.load(urlopen(metadata, timeout=CEILING))
    assert document["resource"] == url
    assert document["authorization_servers"] == [hosted.servers.auth_url]
    assert document["scopes_supported"] == [SCOPE]


def _refused(url: str, token: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, b"{}", {"authorization": f"Bearer {token}"}), timeout=CEILING)
    return refused.value.code, json.load(refused.value)["code"]
