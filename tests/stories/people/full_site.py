"""A site on which every page has something to show."""

import re
from base64 import b32decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.authenticator import SoftAuthenticator
from tests.support.harness import ADA, CALLBACK, SECRET, USER_SCOPES, Harness, harness
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.usage import LAG, roll_up
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.apis.operations import registrar_of
from valetkey.authorization.authentication.factors import PERIOD, code_at
from valetkey.authorization.background.maintenance import sweep_all
from valetkey.authorization.claims.model import Declarations, DeclaredClaim
from valetkey.authorization.features import KINDS
from valetkey.authorization.imports.model import (
    ImportKind,
    ImportRow,
    ImportState,
    RowState,
    UserImport,
)
from valetkey.authorization.imports.rules.files import stored_reasons
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.layout.language import GERMAN
from valetkey.authorization.model.api import Api, ApiMetadata, ClaimLocation
from valetkey.authorization.model.client import (
    AccessTokenFormat,
    GrantTypeName,
    Membership,
    TeamRole,
)
from valetkey.authorization.model.event.event import DoneBy
from valetkey.authorization.model.user import Attribute, Role, StandardClaims, Uid, User
from valetkey.authorization.portal.pages.requests import ADVICE, FAMILIES
from valetkey.authorization.protocol.register.faults import reason
from valetkey.authorization.providers.model import Identity, ProviderWanted
from valetkey.authorization.providers.operations import CREATE_PROVIDER
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.scim import operations as scim
from valetkey.authorization.scim.storage import ScimCredential
from valetkey.authorization.signals.model import PUSH
from valetkey.authorization.signals.rules.streams import (
    StreamChanges,
    StreamChoices,
    StreamDelivery,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.apis import default_api
from valetkey.authorization.webhooks.model import WebhookWanted
from valetkey.authorization.webhooks.rules import NewWebhook, WebhookChanges
from valetkey.config.sections.people import AccountSettings, MailSettings, MailTransport, SignUpMode
from valetkey.config.settings import AuthorizationSettings
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret, fresh_reference

CALENDAR = replace(
    default_api(
        "https://calendar.example/", "Calendar", {"calendar:read": "see your calendar"}, Scope()
    ),
    id="api_calendar",
    access_token_format=AccessTokenFormat.JWT,
)
WORD = "a good long password"
URL = "http://localhost:8400"
BOB = Uid(1002)
# An address that is refused: the crawl presses the button that tests the provider.
GITHUB = "https://127.0.0.1"
PRINTER = "printer"
DEVICE_CODE = GrantTypeName.DEVICE_CODE.value

_PROVIDER = ProviderSettings("github", "GitHub", ProviderKind.GITHUB, GITHUB, "client-1")
_FAMILIES = (*(f"{family}.x" for family in FAMILIES), "something.x")


@asynccontextmanager
async def site(folder: Path, *, full: bool) -> AsyncGenerator[tuple[Harness, bytes]]:
    """A server where everything is on that has pages; ada is there, and all the rest if `full`.

    And the key of her authenticator app, b"" where she has none.
    """
    async with harness(
        folder,
        authorization=AuthorizationSettings(url=URL, listen="127.0.0.1:8400"),
        mail=MailSettings(transport=MailTransport.MAILBOX),
        accounts=AccountSettings(sign_up=SignUpMode.OPEN),
        features=(FederationSettings((_PROVIDER,), Secret("github=secret")),),
    ) as it:
        await it.password(WORD)
        yield it, await _fill(it) if full else b""


def browser(it: Harness) -> Browser:
    """Somebody's, who reads German."""
    return Browser(it.app, host=urlsplit(URL).netloc, scheme="http", language=GERMAN.tag)


async def password_given(here: Browser, request: str) -> str:
    """The first of two steps of a sign-in that an app asked for; where the second one is."""
    page = await here.follow(await here.get(request))
    answer = await here.submit(page, "sign-in", username="ada", password=WORD)
    assert "/oauth/second-factor" in answer.location, answer.body
    return answer.location


async def signs_in(
    it: Harness, here: Browser, key: bytes = b"", name: str = "ada", **more: str
) -> None:
    """Sign in by password, and by the next code of an authenticator app with this key."""
    page = await here.get("/oauth/sign-in")
    if page.status == 303:
        return  # they are
    answer = await here.submit(page, "sign-in", username=name, password=WORD)
    assert answer.status == 303, (answer.status, answer.body[-4000:])
    it.clock.forward(PERIOD)
    page = await here.follow(answer)
    # Not where this browser is remembered, or the factor was removed.
    if 'id="with-code"' in page.body:
        code = code_at(key, it.clock.now // PERIOD)
        answer = await here.submit(page, "with-code", code=code, **more)
        assert answer.status == 303, (answer.status, answer.body[-4000:])


async def give(it: Harness, role: Role | None) -> None:
    """Ada has this role."""
    await it.write(lambda tx: tx.user_directory.set_role(ADA, role, it.clock.now))


async def _proven(it: Harness, uid: Uid, name: str) -> None:
    record = UserRecord(
        name,
        f"{name}@example.com",
        name.capitalize(),
        email_verified=True,
        claims=replace(StandardClaims.NOTHING, locale=GERMAN.tag),
    )
    accounts = it.foundation.accounts()

    def work(tx: Transaction) -> None:
        user = tx.users.find(uid)
        if user is None:
            assert isinstance(accounts.register(tx, record, it.clock.now, uid=uid), User)
        else:
            assert isinstance(accounts.change(tx, user, record, it.clock.now), User)

    await it.write(work)
    await it.password(WORD, uid)


async def _fill(it: Harness) -> bytes:
    await _people_and_apps(it)
    it.clock.forward(days(400))  # what was made until here is old
    await _use(it)
    await _refusals(it)
    key = await _ada_at_work(it)
    await it.write(lambda tx: _import(tx, it.clock.now))
    await _letters(it)
    return key


async def _people_and_apps(it: Harness) -> None:
    for uid, name in ((ADA, "ada"), (BOB, "bob"), (Uid(1003), "carol"), (Uid(1004), "dave")):
        await _proven(it, uid, name)
    old = ("authorization_code", "refresh_token", "implicit", "password", DEVICE_CODE)
    scopes = (*USER_SCOPES, "openid")
    await it.client(PRINTER, profile="classic", grant_types=old, scopes=scopes)
    await it.client("idle", profile="classic")
    await it.client("robot", grant_types=("client_credentials",))
    await it.client("pocket", type="public", application_type="native")
    await it.client("foreign", scopes=scopes)
    await it.client("club")
    provider = ProviderWanted(
        "acme", "Acme", "us", "secret", "https://127.0.0.2", kind=ProviderKind.GITHUB
    )
    await it.perform(CREATE_PROVIDER, {}, provider)

    def work(tx: Transaction) -> None:
        now = it.clock.now
        for client in (PRINTER, "idle", "robot", "pocket"):
            tx.members.add(Membership(client, ADA, TeamRole.OWNER, now))
        tx.members.add(Membership(PRINTER, BOB, TeamRole.MEMBER, now))
        tx.members.add(Membership("foreign", BOB, TeamRole.OWNER, now))
        tx.members.add(Membership("club", BOB, TeamRole.OWNER, now))
        tx.members.add(Membership("foreign", ADA, TeamRole.MEMBER, now))
        Identities.of(tx).link(Identity(GITHUB, "42", ADA, "ada-l", now))
        dave = tx.users.find(Uid(1004))
        assert dave is not None
        tx.users.change(replace(dave, disabled_at=now))

        Declarations.of(tx).save_attribute(
            Attribute("department", "Department", {"type": "string"}), now
        )
        claim = DeclaredClaim("department", "attribute:department", (ClaimLocation.ID_TOKEN,))
        Declarations.of(tx).save_claim(claim, now)
        directory, key = ScimCredential("sc_okta", "Okta", now), it.foundation.services.fingerprints
        assert not scim.issue(tx, key, directory, Secret("token of Okta"))
        registrar = registrar_of(it.foundation.services, "test")
        declared = ApiMetadata(
            CALENDAR.identifier,
            CALENDAR.name,
            {"calendar:read": "see your calendar"},
            roles=("editor",),
        )
        made = registrar.register(tx, declared, it.clock.now, api_id=CALENDAR.id)
        assert isinstance(made, Api), made

        changes = WebhookChanges(
            it.settings, it.foundation.keyring.sealer, it.foundation.runtime.random, KINDS
        )
        for number, app in enumerate((None, PRINTER)):
            target = WebhookWanted(f"https://hooks.example/{number}")
            made_webhook = changes.create(tx, target, bytes([number]) * 64, it.clock.now, app)
            assert isinstance(made_webhook, NewWebhook), made_webhook
        printer = tx.clients.find(PRINTER)
        assert printer is not None
        pushed = StreamDelivery(PUSH, "https://receiver.example/events")
        StreamChanges((), it.foundation.keyring.sealer).create(
            tx, printer, StreamChoices(pushed), bytes(64), it.clock.now
        )

    await it.write(work)


def _import(tx: Transaction, now: Instant) -> None:
    """A file of users that was checked and waits for a decision."""
    states = (ImportState.RECEIVING, ImportState.CHECKING, ImportState.CHECKED)
    user_import = UserImport(
        "im_1", ADA, DoneBy("user"), "staff.csv", ImportKind.CSV, states[0], 0, 0, now
    )
    assert UserImports.of(tx).begin(user_import, 5)
    why = stored_reasons((reason("username", "row.username"),))
    row = ImportRow(1, 2, "ada", "ada@example.com", RowState.EXISTS, why)
    assert UserImports.of(tx).add(user_import.id, (row,))
    for before, after in pairwise(states):
        assert UserImports.of(tx).move(user_import.id, before, after, now)


async def _use(it: Harness) -> None:
    """Tokens on several days, by several people and grant types, and a secret in an address."""
    for uid in (ADA, BOB):
        for client in (PRINTER, "pocket"):
            code = await it.code(client, "notes:read read", uid=uid)
            answer = await it.exchange(client, code)
            assert answer.status == 200, answer.body
            await it.refresh(client, answer.text("refresh_token"))
            it.clock.forward(days(1))
    scope = f"notes:read {CALENDAR.qualified('calendar:read')}"
    code = await it.code(PRINTER, scope, apis=(("", 0), (CALENDAR.id, 0)))
    answer = await it.exchange(PRINTER, code, resource=CALENDAR.identifier)
    assert answer.status == 200, answer.body
    unknown = await it.refresh(
        PRINTER, answer.text("refresh_token"), resource="https://other.example"
    )
    assert unknown.text("error") == "invalid_target"
    query = f"client_id={PRINTER}&client_secret={SECRET}&grant_type=password"
    await it.call("POST", f"/oauth/token?{query}&username=bob&password=x")
    it.clock.forward(LAG + 1)
    await sweep_all(it.foundation.store, it.clock.now, (roll_up,))


async def _refusals(it: Harness) -> None:
    """One for every check about which there is advice, and for families of checks."""

    def work(tx: Transaction) -> None:
        now = it.clock.now
        for check in (*ADVICE, *_FAMILIES):
            received = "'https://app.example/other'" if check.startswith("redirect_uri") else "x"
            code = ErrorCode.INVALID_REQUEST if "uri" in check else ErrorCode.INVALID_GRANT
            reference = fresh_reference(SYSTEM.random)
            until = Instant(now + days(7))
            details = (code.value, check, "no, in fixed words", CALLBACK, received)
            tx.decisions.add(Decision(reference, now, "/oauth/authorize", *details, PRINTER, until))

    await it.write(work)


async def _ada_at_work(it: Harness) -> bytes:
    """A passkey, an authenticator, invitations: what she leaves behind on her pages."""
    here = browser(it)
    await signs_in(it, here)
    for name in ("Laptop", "Pixel"):
        page = await here.get("/account/security/passkeys/new")
        options_match = re.search(r'data-options="([^"]*)"', page.body)
        assert options_match is not None, page.body
        made = SoftAuthenticator(origin=URL).create(unescape(options_match[1]))
        done = await here.submit(page, "add", name=name, credential=made)
        assert done.status in {200, 303}, done.body
    page = await here.get("/account/security/authenticator/new")
    key_match = re.search(r'<code id="key"[^>]*>([A-Z2-7 ]+)<', page.body)
    assert key_match is not None, page.body
    key = b32decode(key_match[1].replace(" ", ""))
    code = code_at(key, it.clock.now // PERIOD)
    assert (await here.submit(page, "set-up", code=code)).status in {200, 303}
    # A browser that is remembered.
    await signs_in(it, browser(it), key, remember="yes")
    await give(it, Role.OWNER)
    await _sends(here, "/admin/tokens/new", "do", name="Backup", lifetime="30", permissions="read")
    await _sends(here, "/admin/registration/new", "do", note="Partner", uses="3", lifetime="30")
    bob = browser(it)
    await signs_in(it, bob, name="bob")
    await _sends(bob, "/developer/apps/club/team", "invite", do="invite", invited="ada@example.com")
    return key


async def _sends(here: Browser, address: str, button: str, **typed: str) -> None:
    answer = await here.submit(await here.get(address), button, **typed)
    assert answer.status in {200, 303}, answer.body


async def _letters(it: Harness) -> None:
    """A forgotten password, somebody who signs up, an invitation to a team."""
    here = browser(it)
    fields = {"username": "grace", "email": "grace@example.com", "name": "Grace", "new": WORD}
    await _sends(here, "/account/new", "create", **fields)
    await _sends(here, "/account/forgotten", "send", name="carol")
