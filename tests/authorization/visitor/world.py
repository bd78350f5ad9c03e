"""A whole visitor's world in memory: the real App and database, a clock to turn, browsers."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.endpoints.visitor.refuse import RefuseWithPage
from valetkey.authorization.endpoints.visitor.routes import routes
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.client import (
    AccessTokenFormat,
    ApplicationType,
    AuthenticationMethod,
    Client,
    ClientType,
)
from valetkey.authorization.model.profile import ProfileName
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.pages.brand import Brand
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.sign_in.password import hash_password
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.authorization.tokens.mint import Minter
from valetkey.authorization.tokens.signing_keys import KeyPlan, SigningKeyRing
from valetkey.config.settings import LimitSettings, PasswordSettings, SessionSettings
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.key import KeySet
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days, hours, minutes, seconds
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.web.offload import Busy, Offload
from valetkey.web.router import App, Message

ISSUER = "https://auth.example"
API = "https://api.example"
NOON = Instant(1_800_000_000)
PASSWORD = "correct horse battery staple"
SCOPES = {
    "read": "read everything of yours",
    "write": "change everything of yours",
    "notes:read": "read your notes",
    "notes:write": "change your notes",
    "client:read": "read its own record",
    "client:write": "change its own record",
}
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636 appendix B

_HASHES: dict[str, str] = {}

WEB = Client(
    id="web1",
    name="Notes Printer",
    description="Prints your notes",
    type=ClientType.CONFIDENTIAL,
    application_type=ApplicationType.WEB,
    profile_name=ProfileName.CLASSIC,
    access_token_format=AccessTokenFormat.JWT,
    access_token_lifetime=None,
    authentication_method=AuthenticationMethod.CLIENT_SECRET,
    redirect_uris=("https://app.example/cb",),
    grant_types=frozenset({"authorization_code", "refresh_token"}),
    scope=Scope.of("read", "write", "notes:read", "client:read"),
    default_scope=Scope.of("notes:read"),
    required_scope=Scope(),
    key_set=KeySet(),
    requires_pkce=False,
    rotates_refresh_token=False,
    ends_with_session=False,
    logo_uri="",
    policy_uri="",
    tos_uri="",
    created_at=NOON,
    changed_at=NOON,
    disabled_at=None,
)
NATIVE = replace(
    WEB,
    id="nat1",
    name="Pocket Printer",
    type=ClientType.PUBLIC,
    application_type=ApplicationType.NATIVE,
    authentication_method=AuthenticationMethod.NONE,
    redirect_uris=("http://127.0.0.1/cb",),
)
ALICE = User(
    uid=Uid(1001),
    username="alice",
    email="alice@example.com",
    email_verified_at=None,
    name="Alice Liddell",
    created_at=NOON,
    changed_at=NOON,
    disabled_at=None,
)
BOB = replace(ALICE, uid=Uid(1002), username="bob", email="bob@example.com", name="Bob")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: str

    def header(self, name: str) -> str:
        """The only header of that name, "" for none."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, found
        return found[0] if found else ""

    @property
    def location(self) -> str:
        return self.header("location")

    @property
    def told(self) -> dict[str, str]:
        """The parameters in the query of the redirect."""
        return dict(parse_qsl(urlsplit(self.location).query, keep_blank_values=True))

    @property
    def told_in_fragment(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.location).fragment, keep_blank_values=True))

    def form(self, button: str) -> tuple[str, dict[str, list[str]]]:
        """Action and fields of the form whose button has that id, as the page shows it."""
        for action, content in re.findall(
            r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', self.body, re.DOTALL
        ):
            if f'id="{button}"' not in content:
                continue
            fields: dict[str, list[str]] = {}
            for tag in re.findall(r"<input[^>]*>", content):
                values = {k: unescape(v) for k, v in re.findall(r'([a-z]+)="([^"]*)"', tag)}
                if values.get("type") == "checkbox" and "checked" not in tag:
                    continue
                fields.setdefault(values["name"], []).append(values.get("value", ""))
            return unescape(action), fields
        raise AssertionError(f"no form with {button}: {self.body}")


@dataclass
class Clock:
    """A clock that is turned by hand."""

    now: Instant = NOON

    def forward(self, by: int) -> None:
        self.now = Instant(self.now + by)


@dataclass
class Browser:
    """Keeps cookies, fills forms, follows nothing by itself."""

    app: App
    cookies: dict[str, str] = field(default_factory=dict)
    address: str = "192.0.2.7"
    host: str = "auth.example"
    scheme: str = "https"

    async def send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        cookies: bool = True,
    ) -> Answer:
        path, _, query = target.partition("?")
        sent = {"host": self.host, **(headers or {})}
        if self.cookies and cookies:
            sent["cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        if method == "POST":
            sent.setdefault("content-type", "application/x-www-form-urlencoded")
            sent["content-length"] = str(len(body))
        scope: Message = {
            "type": "http",
            "method": method,
            "scheme": self.scheme,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in sent.items()],
            "client": (self.address, 4711),
        }
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def put(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, put)
        start, end = messages
        raw = start["headers"]
        assert isinstance(raw, list)
        got = [(k.decode(), v.decode()) for k, v in raw]
        content = end["body"]
        status = start["status"]
        assert isinstance(content, bytes)
        assert isinstance(status, int)
        if cookies:
            self._keep([value for key, value in got if key == "set-cookie"])
        return Answer(status, got, content.decode())

    def _keep(self, lines: list[str]) -> None:
        for line in lines:
            pair, _, attributes = line.partition(";")
            name, _, value = pair.partition("=")
            if "Max-Age=0" in attributes:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value

    async def get(self, target: str, **parameters: str) -> Answer:
        query = urlencode(parameters)
        return await self.send("GET", f"{target}?{query}" if query else target)

    async def post(
        self,
        target: str,
        fields: Mapping[str, str | list[str]],
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return await self.send("POST", target, urlencode(fields, doseq=True).encode(), headers)

    async def submit(
        self,
        page: Answer,
        button: str,
        **fields: str | list[str],
    ) -> Answer:
        """Press the button with that id, with these fields filled in."""
        action, shown = page.form(button)
        return await self.post(action, {**shown, **fields})

    async def sign_in(self, page: Answer, name: str = "alice", word: str = PASSWORD) -> Answer:
        """Fill in the sign-in page and follow to what the authorization endpoint says."""
        return await self.follow(await self.submit(page, "sign-in", username=name, password=word))

    async def allow(self, page: Answer, **fields: str | list[str]) -> Answer:
        return await self.follow(await self.submit(page, "allow", decision="allow", **fields))

    async def deny(self, page: Answer) -> Answer:
        return await self.follow(await self.submit(page, "deny", decision="deny"))

    async def follow(self, answer: Answer) -> Answer:
        """Follow redirects as long as they stay here."""
        for _ in range(10):
            if answer.status != 303 or not answer.location.startswith("/"):
                return answer
            answer = await self.get(answer.location)
        raise AssertionError("redirected in circles")

    async def ask(self, **parameters: str) -> Answer:
        """An authorization request of web1, changed by `parameters`; "-" leaves one out."""
        return await self.follow(await self.get("/oauth/authorize", **usual(**parameters)))


def usual(**parameters: str) -> dict[str, str]:
    """The parameters of a good request, changed; "-" leaves one out."""
    good = {
        "response_type": "code",
        "client_id": "web1",
        "redirect_uri": "https://app.example/cb",
        "scope": "read notes:read",
        "state": "xyz",
    }
    return {k: v for k, v in {**good, **parameters}.items() if v != "-"}


@dataclass
class World:
    """Everything a test may look at."""

    app: App
    site: Site
    store: Store
    clock: Clock
    password: PasswordSignIn
    decisions: DecisionQueue
    minter: Minter

    def browser(
        self,
        cookies: Mapping[str, str] | None = None,
        *,
        host: str = "auth.example",
        scheme: str = "https",
    ) -> Browser:
        return Browser(self.app, dict(cookies or {}), host=host, scheme=scheme)

    async def register(self, client: Client) -> None:
        assert await self.store.write(lambda tx: tx.clients.register(client))

    async def change(self, client: Client) -> None:
        assert await self.store.write(lambda tx: tx.clients.change(client))

    async def events(self) -> list[str]:
        page = await self.store.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        return [event.name for event in page if not event.name.startswith("signing_key.")]

    async def count(self, table: str) -> int:
        sql = f"SELECT count(*) FROM {table}"
        row = await self.store.read(lambda tx: tx.db.row(sql))
        assert row is not None
        return int(row[0])


@asynccontextmanager
async def world(
    url: str,
    *,
    issuer: str = ISSUER,
    limits: LimitSettings | None = None,
) -> AsyncGenerator[World]:
    """A server with alice, bob, web1 and nat1 on a fresh database."""
    engine = connect(url, directory=Path("/"))
    await migrate(engine, "valetkey.authorization.storage.schema")
    clock = Clock()
    runtime = Runtime(now=lambda: clock.now, random=SYSTEM.random)
    store = Store(engine, runtime.random)
    keyring = Keyring.fresh(runtime.random)
    brand = Brand()
    decisions = DecisionQueue(runtime.random)
    settings = PasswordSettings()
    offload = Offload(2, 32)
    site = Site(
        issuer=issuer,
        store=store,
        directory=ClientDirectory(store),
        keyring=keyring,
        sessions=SessionSettings(),
        policy=TokenPolicy(API, hours(1), minutes(10), days(30), days(180), seconds(30)),
        code_lifetime=seconds(60),
        brand=brand,
        decisions=decisions,
        random=runtime.random,
        scopes=SCOPES,
    )
    password = PasswordSignIn(
        store, offload, keyring.fingerprint_key, settings, limits or LimitSettings(), runtime.random
    )
    plan = KeyPlan(days(90), days(1))
    keys = SigningKeyRing(store, keyring.sealer, plan, runtime.random)
    await keys.keep(clock.now)
    minter = Minter(issuer, keys)
    refuse = RefuseWithPage(decisions, brand)
    app = App(
        routes(site, password, minter, refuse),
        runtime=runtime,
        refuse=refuse,
        hosts=(urlsplit(issuer).netloc,),
        unavailable=(Busy,),
    )
    if not _HASHES:
        _HASHES["password"] = hash_password(PASSWORD, settings, runtime.random)
    for user in (ALICE, BOB):
        await store.write(lambda tx, user=user: tx.users.register(user))  # type: ignore[misc]
        await store.write(
            lambda tx, user=user: tx.users.set_password_hash(  # type: ignore[misc]
                user.uid, f"cr_{user.uid}", _HASHES["password"], NOON
            )
        )
    it = World(app, site, store, clock, password, decisions, minter)
    for client in (WEB, NATIVE):
        await it.register(client)
    try:
        yield it
    finally:
        offload.close()
        await engine.close()


def run(
    url: str,
    story: Callable[[World], Awaitable[None]],
    *,
    issuer: str = ISSUER,
    limits: LimitSettings | None = None,
) -> None:
    """Run an asynchronous story in a world of its own."""

    async def tell() -> None:
        async with world(url, issuer=issuer, limits=limits) as it:
            await story(it)

    asyncio.run(tell())
