"""The whole authorization server in memory, as it is composed for real, and a clock to turn."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from tests.support.wait import until_found
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.app import build as composition
from valetkey.authorization.app.foundation import Foundation, build_foundation, prepare
from valetkey.authorization.authentication.password import hash_password
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client
from valetkey.authorization.model.session import Session
from valetkey.authorization.model.voucher import CodePayload, Voucher, VoucherKind
from valetkey.authorization.operations.operation import Operation, Result, call_of
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.revision import change_token_state
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings, Source
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_id, fresh_secret
from valetkey.web.router import App

T = TypeVar("T")

NOON = Instant(1_800_000_000)
SCOPES = {
    name: f"use {name}"
    for name in (
        "read",
        "write",
        "account:read",
        "account:write",
        "authorizations:read",
        "authorizations:write",
        "notes:read",
        "client:read",
        "client:write",
    )
}
USER_SCOPES = tuple(name for name in SCOPES if not name.startswith("client:"))
SECRET = "s" * 40
CREDENTIAL = "r" * 40
CALLBACK = "https://app.example/cb"
ADA = Uid(1001)
FORM = "application/x-www-form-urlencoded"


@dataclass
class Clock:
    """A clock that is turned by hand."""

    now: Instant = NOON

    def forward(self, by: int) -> None:
        self.now = Instant(self.now + by)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.body)
        return found

    def text(self, name: str) -> str:
        """A member that must be a string."""
        value = self.json[name]
        assert isinstance(value, str), value
        return value

    def refused(self, status: int, code: str) -> None:
        assert (self.status, self.json["error"]) == (status, code), self.body


@dataclass
class Service:
    """The server, and a second hand on its database such as the command line has."""

    app: App
    foundation: Foundation
    clock: Clock
    settings: Settings
    clients: dict[str, Client] = field(default_factory=dict[str, Client])

    async def call(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        content_type: str = "",
        authorization: str = "",
        accept: str = "",
        if_match: str = "",
    ) -> Answer:
        """One request, as a server hands it to the app."""
        path, _, query = target.partition("?")
        headers = [(b"host", b"localhost:8400")]
        if content_type:
            headers.append((b"content-type", content_type.encode()))
        if authorization:
            headers.append((b"authorization", authorization.encode("latin-1")))
        if accept:
            headers.append((b"accept", accept.encode()))
        if if_match:
            headers.append((b"if-match", if_match.encode()))
        if body:
            headers.append((b"content-length", str(len(body)).encode()))
        sent: list[MutableMapping[str, object]] = []

        async def receive() -> MutableMapping[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, object]) -> None:
            sent.append(message)

        scope: MutableMapping[str, object] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": headers,
            "scheme": "http",
            "client": ("127.0.0.1", 50_000),
            "http_version": "1.1",
        }
        await self.app(scope, receive, send)
        pairs = sent[0]["headers"]
        assert isinstance(pairs, list)
        names = [name for name, _ in pairs if name != b"set-cookie"]
        # Browsers refuse an answer that says twice which origin may read it.
        assert len(set(names)) == len(names), names
        told = {name.decode(): value.decode() for name, value in pairs}
        status, content = sent[0]["status"], sent[1]["body"]
        assert isinstance(status, int)
        assert isinstance(content, bytes)
        return Answer(status, told, content)

    async def post(
        self,
        path: str,
        form: Mapping[str, str] | bytes = b"",
        authorization: str = "",
        accept: str = "",
    ) -> Answer:
        """A form."""
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        return await self.call("POST", path, body, FORM if body else "", authorization, accept)

    async def token(self, client_id: str, path: str = "/oauth/token", **said: str) -> Answer:
        """A request at an endpoint for clients, as this client would send it."""
        form = {"client_id": client_id, **said}
        client = self.clients.get(client_id)
        if client is not None and client.secrets:
            form.setdefault("client_secret", SECRET)
        return await self.post(path, form)

    async def own_token(self, client_id: str, **said: str) -> str:
        """A token for the client's own record."""
        answer = await self.token(client_id, grant_type="client_credentials", **said)
        assert answer.status == 200, answer.body
        return answer.text("access_token")

    async def exchange(self, client_id: str, code: str, **said: str) -> Answer:
        """Redeem a code."""
        said = {"redirect_uri": CALLBACK, **said}
        return await self.token(client_id, grant_type="authorization_code", code=code, **said)

    async def refresh(self, client_id: str, refresh_token: str, **said: str) -> Answer:
        """Use a refresh token."""
        return await self.token(
            client_id, grant_type="refresh_token", refresh_token=refresh_token, **said
        )

    async def introspect(self, token: str) -> dict[str, object]:
        """What the resource server is told."""
        form = {"token": token, "client_id": RESOURCE_SERVER, "client_secret": CREDENTIAL}
        answer = await self.post("/oauth/introspect", form)
        assert answer.status == 200, answer.body
        return answer.json

    async def ask(self, token: str, object: str, verb: str, **said: object) -> Answer:
        """A question of the resource server about a record."""
        asked = {"access_token": token, "object": object, "verb": verb, **said}
        return await self.raw_ask(json.dumps(asked).encode())

    async def raw_ask(self, body: bytes) -> Answer:
        """The same, byte for byte."""
        return await self.call(
            "POST", "/oauth/identity", body, "application/json", basic(RESOURCE_SERVER, CREDENTIAL)
        )

    async def feed(self, after: str = "") -> Answer:
        """A page of the feed of revocations."""
        query = f"?{urlencode({'after': after})}" if after else ""
        return await self.call(
            "GET", f"/oauth/revocations{query}", authorization=basic(RESOURCE_SERVER, CREDENTIAL)
        )

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run it as another process would; caches drop their answers, whatever it wrote."""

        def write(tx: Transaction) -> T:
            done = work(tx)
            change_token_state(tx.db)
            return done

        return await self.foundation.store.write(write, done_by=by_cli("test"))

    async def perform(
        self, operation: Operation, arguments: Mapping[str, str], body: object = None
    ) -> object:
        """Run an operation of administration as the command line; its value."""
        at = self.clock.now
        call = call_of(self.foundation.services, operation, CommandLine(), at, arguments, body)
        result = await operation.run(call)
        assert isinstance(result, Result)
        return result.value

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run it on a snapshot."""
        return await self.foundation.store.read(work)

    async def events(self) -> list[str]:
        """The names of everything since the start, by time, within a second in no order."""
        return [event.name for event in await self.event_records()]

    async def event_records(self) -> list[EventRecord]:
        """The same in full."""
        page = await self.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        started = ("signing_key.", "client.registered", "client_secret.", "user.registered")
        return [event for event in page if not event.name.startswith(started)]

    async def refusals_recorded(self) -> None:
        """Wait until every refusal so far is in the database: they are written in their order."""
        reference = (await self.post("/oauth/token", {"grant_type": "none"})).text("reference")
        await until_found(lambda: self.read(lambda tx: tx.decisions.find(reference)))

    async def client(self, client_id: str, **said: object) -> Client:
        """Register a client; `said` changes what a plain one would be."""
        metadata = ClientMetadata(
            client_id.capitalize(), redirect_uris=(CALLBACK,), scopes=USER_SCOPES
        )
        if said.get("grant_types") == ("client_credentials",):
            metadata = replace(metadata, redirect_uris=(), scopes=())
        metadata = replace(metadata, **said)  # type: ignore[arg-type]
        secret = Secret(SECRET) if metadata.proof == "client_secret" else None
        registrar = self.foundation.registrar("test")
        client = await self.write(
            lambda tx: registrar.register(
                tx, metadata, self.clock.now, client_id=client_id, secret=secret
            )
        )
        assert isinstance(client, Client), client
        self.clients[client_id] = client
        return client

    async def password(self, text: str, uid: Uid = ADA) -> None:
        """Give the person this password."""
        stored = hash_password(text, self.settings.passwords, SYSTEM.random)
        await self.write(
            lambda tx: tx.users.set_password_hash(uid, f"cr_{uid}", stored, self.clock.now)
        )

    async def code(
        self,
        client_id: str,
        scope: str = "notes:read",
        *,
        uid: Uid = ADA,
        redirect_uri_given: bool = True,
        code_challenge: str = "",
        **said: object,
    ) -> str:
        """A code as the pages hand it out, with the session and the consent behind it.

        `said` changes what it carries.
        """
        key, random, now = self.foundation.keyring.fingerprint_key, SYSTEM.random, self.clock.now
        session_id, text = fresh_id("se", random), fresh_secret(Prefix.CODE, random).reveal()
        user, client = await self.read(lambda tx: (tx.users.find(uid), tx.clients.find(client_id)))
        of_user = 0 if user is None else user.generation
        payload = CodePayload(
            uid,
            scope,
            CALLBACK,
            redirect_uri_given,
            code_challenge,
            "",
            session_id,
            now,
            client_generation=0 if client is None else client.generation,
            user_generation=of_user,
        )
        payload = replace(payload, **said)  # type: ignore[arg-type]
        until = Instant(now + 36_000)
        session = Session(session_id, uid, now, ("pwd",), "Firefox", now, now, until, None)
        voucher = Voucher(
            VoucherKind.CODE,
            key.of(CODE, text),
            client_id,
            fresh_id("gr", random),
            payload.encode(),
            Instant(now + 60),
        )

        def work(tx: Transaction) -> None:
            tx.sessions.start(session, Fingerprint(session_id))
            tx.consents.put(Consent(uid, client_id, Scope.parse(scope), "", now))
            assert tx.vouchers.issue(voucher)

        await self.write(work)
        return text

    async def tokens(self, client_id: str, scope: str = "notes:read") -> Answer:
        """The answer to the exchange of a fresh code."""
        answer = await self.exchange(client_id, await self.code(client_id, scope))
        assert answer.status == 200, answer.body
        return answer


def basic(user: str, password: str) -> str:
    """An Authorization header."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@asynccontextmanager
async def service(
    directory: Path,
    database: str = "",
    algorithms: tuple[Algorithm, ...] = (Algorithm.ES256,),
    **more: Any,
) -> AsyncGenerator[Service]:
    """A server with ada, 1001, and no client but the resource server.

    `more` replaces whole groups of settings.
    """
    clock = Clock()
    runtime = Runtime(lambda: clock.now, SYSTEM.random)
    given = Settings()
    settings = replace(
        given,
        resource=replace(given.resource, credential_text=Secret(CREDENTIAL)),
        tokens=replace(given.tokens, signing_algorithms=algorithms),
        source=Source(None, directory, {}),
    )
    if database:
        settings = replace(settings, authorization=replace(given.authorization, database=database))
    settings = replace(settings, **more)
    await prepare(settings, runtime)
    app = await composition.build(settings, runtime, SCOPES)
    foundation = build_foundation(settings, runtime, SCOPES)
    it = Service(app, foundation, clock, settings)
    record = UserRecord("ada", "ada@example.com", "Ada", email_verified=False)
    await it.write(lambda tx: foundation.accounts().register(tx, record, clock.now, uid=ADA))
    try:
        async with app.running():
            yield it
    finally:
        await foundation.close()


def run(directory: Path, story: Callable[[Service], Awaitable[None]], database: str = "") -> None:
    """Run an asynchronous story with a server of its own."""

    async def tell() -> None:
        async with service(directory, database) as it:
            await story(it)

    asyncio.run(tell())
