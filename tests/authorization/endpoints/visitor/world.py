"""A whole visitor's world in memory: the real App and database, a clock to turn, browsers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.authorization.endpoints.visitor.browser import PASSWORD, Browser
from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.app.clients import browser_routes
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.app.pages import PageDependencies, page_routes
from valetkey.authorization.app.parts import make_documents
from valetkey.authorization.authentication.authenticate import PasswordSignIn
from valetkey.authorization.authentication.federation.registry import Providers
from valetkey.authorization.authentication.password import hash_password
from valetkey.authorization.background.logout_delivery import LogoutDelivery
from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.email.outbox import MailOutbox
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.grant_types import RULES
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.current_brand import CurrentBrand
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.register.client import (
    CLIENT_SCOPE,
    ApplicationType,
    AuthenticationMethod,
    Client,
    ClientType,
    ProfileName,
)
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.protocol.register.self_registration import RESERVED
from valetkey.authorization.site.errors.refuse import RefuseWithPage
from valetkey.authorization.storage.decisions import DecisionQueue
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.apis import ApiDirectory, default_api
from valetkey.authorization.tokens.client_keys import ClientKeys, SharedSecrets
from valetkey.authorization.tokens.declared_claims import TokenClaims
from valetkey.authorization.tokens.id_token import IdTokenHints, IdTokens, LogoutTokens
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.authorization.tokens.mint import TokenResponses
from valetkey.authorization.tokens.signed import ClientSigner
from valetkey.authorization.tokens.signing_keys import KeyPlan, SigningKeyRing
from valetkey.authorization.tokens.subject import Subjects
from valetkey.config.sections.accounts import AdministrationSettings, FactorSettings
from valetkey.config.sections.mail import MailSettings
from valetkey.config.sections.portal import PortalSettings, Registrants
from valetkey.config.settings import LimitSettings, PasswordSettings, SessionSettings, Settings
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days, hours, minutes, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.web.offload import Busy, Offload
from valetkey.web.router import App, Route

ISSUER = "https://auth.example"
API = "https://api.example"
NOON = Instant(1_800_000_000)
SCOPES = {
    "read": "read everything of yours",
    "write": "change everything of yours",
    "notes:read": "read your notes",
    "notes:write": "change your notes",
    **IDENTITY_SCOPES,
    "client:read": "read its own record",
    "client:write": "change its own record",
}
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636 appendix B
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}

_HASHES: dict[str, str] = {}

WEB = Client(
    id="web1",
    name="Notes Printer",
    description="Prints your notes",
    profile_name=ProfileName.CLASSIC,
    redirect_uris=("https://app.example/cb",),
    grant_types=frozenset({"authorization_code", "refresh_token"}),
    scope=Scope.of("read", "write", "notes:read", "client:read"),
    default_scope=Scope.of("notes:read"),
    requires_pkce=False,
    created_at=NOON,
    changed_at=NOON,
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
class Clock:
    """A clock that is turned by hand."""

    now: Instant = NOON

    def forward(self, by: int) -> None:
        self.now = Instant(self.now + by)


@dataclass
class World:
    """Everything a test may look at."""

    app: App
    server: Server
    store: Store
    clock: Clock
    password: PasswordSignIn
    decisions: DecisionQueue
    minter: TokenResponses
    outbox: MailOutbox

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


async def _nowhere(host: str, port: int) -> Sequence[str]:
    raise OSError("there is no network")


@asynccontextmanager
async def world(
    url: str,
    *,
    issuer: str = ISSUER,
    limits: LimitSettings | None = None,
    portal: PortalSettings | None = None,
    mail: MailSettings | None = None,
    factors: FactorSettings | None = None,
) -> AsyncGenerator[World]:
    """A server with alice, bob, web1 and nat1 on a fresh database."""
    engine = connect(url, directory=Path("/"))
    await migrate(engine, "valetkey.authorization.storage.schema")
    clock = Clock()
    runtime = Runtime(now=lambda: clock.now, random=SYSTEM.random)
    store = Store(engine, runtime.random)
    keyring = Keyring.fresh(runtime.random)
    brands = CurrentBrand(Brand())
    decisions = DecisionQueue(runtime.random)
    settings = PasswordSettings()
    offload = Offload(2, 32)
    plan = KeyPlan(days(90), days(1))
    keys = SigningKeyRing(store, keyring.sealer, plan, runtime.random)
    await keys.keep(clock.now)
    door = OutboundHttp((), runtime.now, resolve=_nowhere)
    shared, client_keys = SharedSecrets(keyring.sealer), ClientKeys(door)
    default = default_api(API, "API", SCOPES, CLIENT_SCOPE)
    usual = Settings()
    known = replace(
        usual,
        authorization=replace(usual.authorization, url=ISSUER),
        resource=replace(usual.resource, url=API),
        mail=mail or MailSettings(),
        portal=portal or PortalSettings(who=Registrants.EVERYONE),
        factors=factors or FactorSettings(),
    )
    foundation = Foundation(known, runtime, keyring, store, keys, SCOPES, door, client_keys)
    directory = ClientDirectory(store)
    server = Server(
        issuer=issuer,
        store=store,
        directory=directory,
        documents=make_documents(foundation, directory),
        apis=ApiDirectory(store, lambda: -1, default),
        claims=TokenClaims(store, default),
        keyring=keyring,
        sessions=SessionSettings(),
        administration=AdministrationSettings(),
        policy=TokenPolicy(
            API, seconds(60), hours(1), minutes(10), days(30), days(180), seconds(30)
        ),
        brands=brands,
        decisions=decisions,
        random=runtime.random,
        scopes=SCOPES,
        requests=RequestObjects(issuer, client_keys, shared, door),
        hints=IdTokenHints(issuer, keys, shared),
    )
    password = PasswordSignIn(
        store, offload, keyring.fingerprint_key, settings, limits or LimitSettings(), runtime.random
    )
    subjects = Subjects(keyring.fingerprint_key)
    signer = ClientSigner(keys, shared, client_keys, runtime.random)
    id_tokens = IdTokens(issuer, signer, subjects, hours(1))
    minter = TokenResponses(issuer, keys, id_tokens)
    refuse = RefuseWithPage(decisions, brands, ISSUER)
    tokens = LogoutTokens(issuer, signer, subjects)
    logout_delivery = LogoutDelivery(store, tokens, door.post_form, runtime)
    deed = SignOut(issuer, store, subjects, logout_delivery.at_once)
    outbox = MailOutbox(mail or MailSettings(), keyring, runtime.random)
    rules = ClientRules((ISSUER, API), tuple(SCOPES), RULES, ProfileName.CLASSIC)
    doorkeeper = Portal(
        Registrar(rules, keyring.fingerprint_key, keyring.sealer, runtime.random, "portal"),
        known.portal,
        tuple(name for name in SCOPES if not name.startswith("client:")),
        (*RESERVED, "Valetkey"),
    )
    # Tokens are not given in this world.
    elsewhere = Route("/oauth/token", {}, refuse)
    site = PageDependencies(
        foundation, server, password, deed, doorkeeper, Providers(()), refuse, offload
    )
    app = App(
        (*browser_routes(server, minter, refuse), *page_routes(site, elsewhere, elsewhere)),
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
    it = World(
        app, server, store.acting(by_cli("test")), clock, password, decisions, minter, outbox
    )
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
    portal: PortalSettings | None = None,
    mail: MailSettings | None = None,
    factors: FactorSettings | None = None,
) -> None:
    """Run an asynchronous story in a world of its own."""

    async def tell() -> None:
        async with world(
            url, issuer=issuer, limits=limits, portal=portal, mail=mail, factors=factors
        ) as it:
            await story(it)

    asyncio.run(tell())
