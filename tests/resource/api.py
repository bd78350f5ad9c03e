"""The resource server as tests use it: the real App, called over ASGI, beside a stand-in issuer."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from tests.sdk.issuer import API, SECRET, Clock, Issuer
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import AuthorizationSettings, Settings, SettingsSource
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret
from valetkey.resource.app import build, prepare
from valetkey.web.connection.incoming_request import Message
from valetkey.web.router import RoutedApp

HOST = urlsplit(API).netloc


@dataclass(frozen=True)
class Answer:
    """One answer of the API."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Api:
    """One resource server and the issuer that it trusts."""

    settings: Settings
    issuer: Issuer
    app: RoutedApp
    token: str = ""
    """Shown with every call that shows no other."""
    seen: list[Answer] = field(default_factory=list[Answer])

    async def __call__(
        self,
        method: str,
        target: str,
        json: object = None,
        *,
        token: str | None = None,
        body: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """Call; `json` is sent as such, header names have underscores, token "" shows none."""
        fields = {"host": HOST}
        shown = self.token if token is None else token
        if shown:
            fields["authorization"] = f"Bearer {shown}"
        if json is not None:
            body = msgspec.json.encode(json)
        if body:
            fields["content-type"] = "application/json"
            fields["content-length"] = str(len(body))
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await send(self.app, method, target, fields, body or b"")
        self.seen.append(answer)
        return answer


async def send(
    app: RoutedApp, method: str, target: str, fields: Mapping[str, str], body: bytes
) -> Answer:
    """One request, as a server hands it to an ASGI application."""
    path, _, query = target.partition("?")
    scope: Message = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "raw_path": path.encode(),
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in fields.items()],
        "client": ("127.0.0.1", 50_000),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def keep(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, keep)
    raw = cast("list[tuple[bytes, bytes]]", sent[0]["headers"])
    headers = {name.decode(): value.decode() for name, value in raw}
    return Answer(
        cast("int", sent[0]["status"]),
        headers,
        b"".join(cast("bytes", message["body"]) for message in sent[1:]),
    )


def settings_for(directory: Path, issuer: Issuer, database: str = "sqlite:///r.db") -> Settings:
    """Settings of a resource server that keeps everything in `directory`."""
    return Settings(
        authorization=AuthorizationSettings(url=issuer.url),
        resource=ResourceSettings(url=API, database=database, credential_text=Secret(SECRET)),
        source=SettingsSource(directory=directory),
    )


@contextlib.asynccontextmanager
async def serving(settings: Settings, issuer: Issuer) -> AsyncGenerator[Api]:
    """The server, built and running with all that runs beside it."""
    runtime = Runtime(now=issuer.clock.now, random=SYSTEM.random)
    await prepare(settings, runtime)
    app = await build(settings, runtime)
    async with app.running():
        yield Api(settings, issuer, app)


@contextlib.asynccontextmanager
async def api(directory: Path) -> AsyncGenerator[Api]:
    """A resource server with an empty database, and its issuer; calls are ada's (uid 1001)."""
    async with (
        Issuer(Clock()).running() as issuer,
        serving(settings_for(directory, issuer), issuer) as server,
    ):
        server.token = issuer.token("read write")
        yield server


def following(page: Answer) -> str:
    """Return the target of the next page, from the Link header; "" for the last page."""
    address, _, relation = page.headers.get("link", "").partition(">; ")
    assert relation in {"", 'rel="next"'}
    return address.removeprefix(f"<{API}")
