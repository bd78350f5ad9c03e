"""The authorization server in this process, assembled as for production, without a socket.

`harness()` builds one from settings, with a clock that tests move and an open database.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from tests.support.asgi import Answer, Caller, basic
from tests.support.plain_browser import Browser
from tests.support.wait import until_found
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.app import build as composition
from valetkey.authorization.app.foundation import (
    Foundation,
    build_foundation,
    prepare_opened,
)
from valetkey.authorization.authentication.password import PasswordSignIn, hash_password
from valetkey.authorization.endpoints.authorize.authorize import Authorize
from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.model.client import RESOURCE_SERVER, Client
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.grant import CodePayload, Consent, Voucher, VoucherKind
from valetkey.authorization.model.user import Session, Uid
from valetkey.authorization.operations.operation import Operation, Result, call_of
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.revision import change_token_state
from valetkey.authorization.storage.transaction import ActorStore, Transaction
from valetkey.config.settings import Settings, SettingsSource
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_id, fresh_secret
from valetkey.testing.server import QUICK_PASSWORDS
from valetkey.web.offload import Offload

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
_REGISTRATIONS = ("signing_key.", "client.registered", "client_secret.", "user.registered")
_BY = by_cli("test")


@dataclass
class Clock:
    """A clock that only a test moves."""

    now: Instant = NOON

    def forward(self, by: int) -> None:
        self.now = Instant(self.now + by)


@dataclass
class Harness(Caller):
    """The app, and a second connection to its database such as the command line has."""

    foundation: Foundation
    clock: Clock
    settings: Settings
    ignored_events: tuple[str, ...] = _REGISTRATIONS
    clients: dict[str, Client] = field(default_factory=dict[str, Client])
    earlier_events: frozenset[str] = frozenset()

    @property
    def authorize(self) -> Authorize:
        """Return the app's authorization endpoint, with what it shares with the pages."""
        route = next(route for route in self.app.routes if route.path == AUTHORIZE)
        return route.methods["GET"].__self__  # type: ignore[attr-defined,no-any-return]

    @property
    def server(self) -> Server:
        """Return what the app's authorization endpoint and pages share, caches included."""
        return self.authorize.server

    @property
    def store(self) -> ActorStore:
        """Return the app's own storage, acting as the command line."""
        return self.server.store.acting(_BY)

    def browser(
        self,
        cookies: Mapping[str, str] | None = None,
        *,
        host: str = "auth.example",
        scheme: str = "https",
    ) -> Browser:
        """Return a browser that has visited nothing yet."""
        return Browser(self.app, dict(cookies or {}), host=host, scheme=scheme)

    async def token(self, client_id: str, path: str = "/oauth/token", **parameters: str) -> Answer:
        """Send a form with the credentials of this client."""
        form = {"client_id": client_id, **parameters}
        client = self.clients.get(client_id)
        if client is not None and client.secrets:
            form.setdefault("client_secret", SECRET)
        return await self.post(path, form)

    async def own_token(self, client_id: str, **parameters: str) -> str:
        """Return an access token of the client itself."""
        answer = await self.token(client_id, grant_type="client_credentials", **parameters)
        assert answer.status == 200, answer.body
        return answer.text("access_token")

    async def exchange(self, client_id: str, code: str, **parameters: str) -> Answer:
        """Redeem an authorization code."""
        parameters = {"redirect_uri": CALLBACK, **parameters}
        return await self.token(client_id, grant_type="authorization_code", code=code, **parameters)

    async def refresh(self, client_id: str, refresh_token: str, **parameters: str) -> Answer:
        """Use a refresh token."""
        return await self.token(
            client_id, grant_type="refresh_token", refresh_token=refresh_token, **parameters
        )

    async def introspect(self, token: str) -> dict[str, object]:
        """Return the introspection response to the resource server."""
        form = {"token": token, "client_id": RESOURCE_SERVER, "client_secret": CREDENTIAL}
        answer = await self.post("/oauth/introspect", form)
        assert answer.status == 200, answer.body
        return answer.json

    async def ask(self, token: str, object: str, verb: str, **fields: object) -> Answer:
        """Send a request of the resource server for a record."""
        request = {"access_token": token, "object": object, "verb": verb, **fields}
        return await self.raw_ask(json.dumps(request).encode())

    async def raw_ask(self, body: bytes) -> Answer:
        """Send these bytes as a request of the resource server for a record."""
        return await self.call(
            "POST", "/oauth/identity", body, "application/json", basic(RESOURCE_SERVER, CREDENTIAL)
        )

    async def feed(self, after: str = "") -> Answer:
        """Return a page of the feed of revocations."""
        query = f"?{urlencode({'after': after})}" if after else ""
        return await self.call(
            "GET", f"/oauth/revocations{query}", authorization=basic(RESOURCE_SERVER, CREDENTIAL)
        )

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a transaction as another process would; caches are invalidated whatever it wrote."""

        def write(tx: Transaction) -> T:
            done = work(tx)
            change_token_state(tx.db)
            return done

        return await self.foundation.store.write(write, done_by=_BY)

    async def perform(
        self, operation: Operation, arguments: Mapping[str, str], body: object = None
    ) -> object:
        """Run an operation of administration as the command line; return its value."""
        at = self.clock.now
        call = call_of(self.foundation.services, operation, CommandLine(), at, arguments, body)
        result = await operation.run(call)
        assert isinstance(result, Result)
        return result.value

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a read-only transaction as another process would."""
        return await self.foundation.store.read(work)

    async def events(self) -> list[str]:
        """Return the names of the events since the start, by time, within a second in no order."""
        return [event.name for event in await self.event_records()]

    async def event_records(self) -> list[EventRecord]:
        """Return the events since the start, without the ignored ones."""
        page = await self.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        return [
            event
            for event in page
            if event.id not in self.earlier_events
            and not event.name.startswith(self.ignored_events)
        ]

    async def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        row = await self.read(lambda tx: tx.db.row(f"SELECT count(*) FROM {table}"))
        assert row is not None
        return int(row[0])

    async def refusals_recorded(self) -> None:
        """Wait until the background job has written every refusal so far, in their order."""
        reference = (await self.post("/oauth/token", {"grant_type": "none"})).text("reference")
        await until_found(lambda: self.read(lambda tx: tx.decisions.find(reference)))

    async def client(self, client_id: str, **changes: object) -> Client:
        """Register a client through the rules; `changes` apply to the metadata."""
        metadata = ClientMetadata(
            client_id.capitalize(), redirect_uris=(CALLBACK,), scopes=USER_SCOPES
        )
        if changes.get("grant_types") == ("client_credentials",):
            metadata = replace(metadata, redirect_uris=(), scopes=())
        metadata = replace(metadata, **changes)  # type: ignore[arg-type]
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

    def password_sign_in(self, offload: Offload) -> PasswordSignIn:
        """Return the check of passwords that the sign-in page uses, with threads of its own."""
        key, settings = self.foundation.keyring.fingerprint_key, self.settings
        random = self.foundation.runtime.random
        return PasswordSignIn(
            self.server.store, offload, key, settings.passwords, settings.limits, random
        )

    async def password(self, text: str, uid: Uid = ADA) -> None:
        """Set the password of a user."""
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
        **changes: object,
    ) -> str:
        """Issue an authorization code with the session and the consent behind it.

        `changes` apply to its payload.
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
        payload = replace(payload, **changes)  # type: ignore[arg-type]
        until = Instant(now + 36_000)
        session = Session(session_id, uid, now, ("pwd",), "Firefox", now, now, until, None)
        voucher = Voucher(
            VoucherKind.CODE,
            key.fingerprint(CODE, text),
            client_id,
            fresh_id("gr", random),
            payload.encode(),
            Instant(now + 60),
        )

        def work(tx: Transaction) -> None:
            tx.sessions.start(session, Fingerprint(session_id))
            tx.consents.save(Consent(uid, client_id, Scope.parse(scope), "", now))
            assert tx.vouchers.issue(voucher)

        await self.write(work)
        return text

    async def register(self, client: Client) -> None:
        """Store a client as it is, without the rules of registration."""
        assert await self.store.write(lambda tx: tx.clients.register(client))

    async def change(self, client: Client) -> None:
        """Replace a client as it is stored."""
        assert await self.store.write(lambda tx: tx.clients.change(client))

    async def tokens(self, client_id: str, scope: str = "notes:read") -> Answer:
        """Return the response to the exchange of a fresh code."""
        answer = await self.exchange(client_id, await self.code(client_id, scope))
        assert answer.status == 200, answer.body
        return answer


async def _register_ada(it: "Harness") -> None:
    record = UserRecord("ada", "ada@example.com", "Ada", email_verified=False)
    accounts = it.foundation.accounts()
    await it.write(lambda tx: accounts.register(tx, record, it.clock.now, uid=ADA))


@asynccontextmanager
async def harness(
    directory: Path,
    database: str = "",
    algorithms: tuple[Algorithm, ...] = (Algorithm.ES256,),
    *,
    url: str = "",
    scopes: Mapping[str, str] = SCOPES,
    populate: Callable[[Harness], Awaitable[None]] = _register_ada,
    ignored_events: tuple[str, ...] = _REGISTRATIONS,
    background: bool = True,
    **more: Any,
) -> AsyncGenerator[Harness]:
    """Start a server with the users and clients that `populate` registers: by default ada, 1001.

    `more` replaces whole sections of the settings. Without `background`, jobs such as delivery
    of email and writing of refusals do not run.
    """
    clock = Clock()
    runtime = Runtime(lambda: clock.now, SYSTEM.random)
    defaults = Settings()
    settings = replace(
        defaults,
        resource=replace(defaults.resource, credential_text=Secret(CREDENTIAL)),
        passwords=QUICK_PASSWORDS,
        tokens=replace(defaults.tokens, signing_algorithms=algorithms),
        source=SettingsSource(None, directory, {}),
    )
    settings = replace(settings, **more)
    server = settings.authorization
    server = replace(server, database=database or server.database, url=url or server.url)
    settings = replace(settings, authorization=server)
    foundation = build_foundation(settings, runtime, scopes)
    try:
        await prepare_opened(foundation)
        app = await composition.build(settings, runtime, scopes)
        it = Harness(app, foundation, clock, settings, ignored_events)
        await populate(it)
        page = await it.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        it.earlier_events = frozenset(event.id for event in page)
        if background:
            async with app.running():
                yield it
        else:
            yield it
            # Closes the app: background tasks are cancelled before their first step.
            async with app.running():
                pass
    finally:
        await foundation.close()


def run(
    directory: Path,
    story: Callable[[Harness], Awaitable[None]],
    database: str = "",
    **how: Any,
) -> None:
    """Run an asynchronous test with a server of its own; `how` is passed to `harness`."""

    async def tell() -> None:
        async with harness(directory, database, **how) as it:
            await story(it)

    asyncio.run(tell())
