"""Events: one for each change, each class by some deed, and never a secret in one."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest

from tests.authorization.actions.admin.test_owner import ada_as_owner
from tests.authorization.alerts.test_alerts import raised_and_ended as alerts
from tests.authorization.endpoints.scim.directory import Directory
from tests.authorization.model.api_events import apis, devices
from tests.authorization.model.factor_events import second_factors
from tests.authorization.model.import_events import imports
from tests.authorization.model.mail_events import letters, links
from tests.authorization.model.portal_events import teams
from tests.authorization.model.provider_events import providers
from tests.authorization.model.removal_events import ends
from tests.authorization.model.signal_events import signal_streams
from tests.authorization.model.webhook_events import webhooks
from tests.support.harness import ADA, CALLBACK, NOON, SECRET, Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions import groups
from valetkey.authorization.actions.account.connected_apps import end_apps
from valetkey.authorization.actions.admin import tokens as api_tokens
from valetkey.authorization.actions.admin.audit import begin_export
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.admin.server import change_brand
from valetkey.authorization.actions.admin.tokens import FreshToken, WantedToken
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.groups import assign, assign_group, withdraw_group
from valetkey.authorization.actions.groups import withdraw as withdraw_role
from valetkey.authorization.actions.registrations import adopt, invite, withdraw
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.apis.operations import registrar_of
from valetkey.authorization.authentication.session import end_session
from valetkey.authorization.background.logout_delivery import LogoutDelivery
from valetkey.authorization.claims.model import DeclaredClaim
from valetkey.authorization.claims.rules import (
    declare_attribute,
    declare_claim,
    remove_attribute,
    remove_claim,
)
from valetkey.authorization.endpoints.client.registration import draw
from valetkey.authorization.features import EVENTS
from valetkey.authorization.model.api import Api, ApiMetadata, ClaimLocation
from valetkey.authorization.model.client import Client, OpenIdRegistration
from valetkey.authorization.model.event.event import SYSTEM as BY_SYSTEM
from valetkey.authorization.model.event.event import (
    ByAnonymous,
    ByClient,
    BySystem,
    ByUser,
    Event,
    by_cli,
)
from valetkey.authorization.model.event.grants import ClientRemoved, RemovedBecause
from valetkey.authorization.model.user import (
    ApiToken,
    Attribute,
    Delivery,
    Group,
    Role,
    Session,
    User,
)
from valetkey.authorization.operations.client_state import END_SECRET, UNVERIFY, VERIFY
from valetkey.authorization.operations.groups import (
    ADD_GROUP_MEMBER,
    CHANGE_GROUP,
    CREATE_GROUP,
    DELETE_GROUP,
    REMOVE_GROUP_MEMBER,
)
from valetkey.authorization.operations.operation import Done
from valetkey.authorization.operations.user_records import GroupChange, GroupWanted
from valetkey.authorization.scim.operations import (
    CREATE_SCIM_CREDENTIAL,
    END_SCIM_CREDENTIAL,
    ROTATE_SCIM_CREDENTIAL,
    ScimCredentialMade,
    ScimCredentialWanted,
    ScimRotation,
)
from valetkey.authorization.scim.settings import ScimSettings
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.client_keys import ClientSigner
from valetkey.authorization.tokens.id_token import LogoutTokens, Subjects
from valetkey.cli.register.store import OpenedStore, rotate_sealing_key
from valetkey.config.sections.people import BrandField, BrandSettings
from valetkey.fetch.outbound import Fetched
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_secret

_WORD = "a good long password"
_FAR = Instant(NOON + days(300))


def _below(kind: type[Event]) -> Iterator[type[Event]]:
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith("valetkey.authorization."):
            yield subclass
            yield from _below(subclass)


def test_every_event_has_a_unique_name_and_a_description() -> None:
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    kinds = set(_below(Event))
    assert set(EVENTS) == kinds - {ByUser, ByClient, ByAnonymous, BySystem}
    for event in EVENTS:
        noun, _, participle = event.name.partition(".")
        assert noun
        assert participle.endswith(("ed", "en", "wn", "_up")), event.name
        assert event.__doc__


def test_every_event_has_a_sentence_with_placeholders_for_its_fields() -> None:
    for event in EVENTS:
        assert event.sentence, event.name
        blanks = set(re.findall(r"%\((\w+)\)s", event.sentence))
        assert blanks <= set(event.__struct_fields__), event.name
        assert ("because" in blanks) == bool(event.reasons), event.name
        for field, sentence in event.without.items():
            assert field in blanks, event.name
            assert set(re.findall(r"%\((\w+)\)s", sentence)) <= blanks - {field}, event.name
        # What was before and after a change can be none.
        assert (blanks & {"before", "after"}) <= set(event.without), event.name


async def _pages(it: Harness, secrets: set[str]) -> None:
    """Everything a person does in a browser; what went to the client as well."""
    browser = Browser(it.app, host="localhost:8400", scheme="http")
    parameters = {"client_id": "spa", "scope": "notes:read account:read"}
    parameters |= {"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}
    parameters |= {"code_challenge_method": "S256"}
    page = await browser.ask(**parameters)
    await browser.submit(page, "sign-in", username="ada", password="wrong")
    page = await browser.sign_in(page, "ada", _WORD)
    page = await browser.sign_in(await browser.ask(**parameters, prompt="login"), "ada", _WORD)
    assert (await browser.deny(page)).told["error"] == "access_denied"
    await browser.submit(await browser.get("/account/confirm"), "confirm", password=_WORD)
    answer = await browser.allow(await browser.ask(**parameters))
    code = answer.told["code"]
    secrets |= {code, *browser.cookies.values()}
    tokens = await it.exchange(
        "spa", code, code_verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    assert tokens.status == 200, tokens.body
    await browser.submit(await browser.get("/oauth/sign-out"), "sign-out")
    first = tokens.text("refresh_token")
    second = await it.refresh("spa", first)
    assert (await it.refresh("spa", first)).status == 200
    assert (await it.refresh("spa", second.text("refresh_token"))).status == 200
    it.clock.forward(60)
    assert (await it.refresh("spa", first)).status == 400
    for answer_ in (tokens, second):
        secrets |= {answer_.text("access_token"), answer_.text("refresh_token")}


async def _apps(it: Harness, secrets: set[str]) -> None:
    """Everything an app does by itself."""
    code = await it.code("web")
    tokens = await it.exchange("web", code)
    assert (await it.exchange("web", code)).status == 400
    assert (await it.exchange("web", await it.code("web"), redirect_uri="x")).status == 400
    own = await it.own_token("web")
    secrets |= {code, own, tokens.text("access_token"), tokens.text("refresh_token")}
    change = await it.ask(own, "client", "change", changes={"description": "New"})
    assert change.status == 200
    await it.token("web", "/oauth/revoke", token=own)


async def _courier(it: Harness, status: int) -> None:
    """Every app that was told of a session hears of its end, or says something else."""
    session = Session(
        f"se_{status}", ADA, it.clock.now, ("pwd",), "", it.clock.now, it.clock.now, _FAR, None
    )

    def work(tx: Transaction) -> Sequence[Delivery]:
        tx.sessions.start(session, Fingerprint(session.id))
        assert tx.participants.add(session.id, "web", it.clock.now)
        assert end_session(tx, session, it.clock.now, "signed_out")
        return tx.deliveries.lease(it.clock.now, _FAR, 10)

    async def post(url: str, fields: Mapping[str, str]) -> Fetched:
        assert url == "https://app.example/logout"
        return Fetched(status, "", b"")

    keys, subjects = it.foundation.keys, Subjects(it.foundation.keyring.fingerprint_key)
    await keys.maintain(it.clock.now)
    signer = ClientSigner(keys, it.foundation.shared_secrets, it.foundation.client_keys, bytes)
    tokens = LogoutTokens(it.foundation.issuer, signer, subjects)
    logout_delivery = LogoutDelivery(
        it.foundation.store, tokens, post, Runtime(lambda: it.clock.now, bytes)
    )
    leased = await it.write(work)
    it.clock.forward(days(1))
    await logout_delivery.at_once(leased)


async def _desk(it: Harness, secrets: set[str]) -> None:
    """Everything an administrator does."""
    registrar, accounts = it.foundation.registrar("test"), it.foundation.accounts()
    now, secret = it.clock.now, Secret("n" * 40)

    def work(tx: Transaction) -> None:
        client = tx.clients.find("web")
        assert client is not None
        assert not registrar.issue_secret(tx, client, secret, now, others_live=None)
        assert registrar.disable(tx, client, now)
        off = tx.clients.find("web")
        assert off is not None
        assert registrar.enable(tx, off, now)
        user = tx.users.find(ADA)
        assert user is not None
        record = UserRecord("ada", "ada@example.com", "Ada Lovelace", email_verified=False)
        changed = accounts.change(tx, user, record, now)
        assert isinstance(changed, User)
        accounts.set_password(tx, changed, "hash", now)
        assert accounts.disable(tx, changed, now)
        closed = tx.users.find(ADA)
        assert closed is not None
        assert accounts.enable(tx, closed, now)

    await it.write(work)
    keys = it.foundation.keys
    await keys.rotate(now, at_once=True, done_by=BY_SYSTEM)
    await keys.withdraw(keys.current(now).kid, now, done_by=BY_SYSTEM)
    foundation = replace(it.foundation, store=it.foundation.store.acting(by_cli("test")))
    await rotate_sealing_key(OpenedStore(foundation, now, CommandLine()))
    secrets.add(secret.reveal())


async def _programs(it: Harness, secrets: set[str]) -> None:
    """Everything about programs that administer, and copies of the log."""
    fresh, now = FreshToken("at_1", fresh_secret(Prefix.API_TOKEN, SYSTEM.random)), it.clock.now
    wanted_token = WantedToken("Nightly report", ("read",), days(1), ADA)

    def work(tx: Transaction) -> None:
        assert tx.user_directory.set_role(ADA, Role.AUDITOR, now)
        key, by = it.foundation.keyring.fingerprint_key, CommandLine()
        assert isinstance(api_tokens.issue(tx, by, key, wanted_token, fresh, now), ApiToken)
        assert api_tokens.end(tx, by, "at_1", now)
        begin_export(tx, by, "csv", now)
        assert change_brand(tx, by, BrandSettings(), {BrandField.NAME: "Acme"}, now)

    await it.write(work)
    made = await it.perform(CREATE_SCIM_CREDENTIAL, {}, ScimCredentialWanted("Okta"))
    assert isinstance(made, ScimCredentialMade)
    secrets.add(made.token)
    one = {"credential_id": made.record.id}
    again = await it.perform(ROTATE_SCIM_CREDENTIAL, one, ScimRotation())
    assert isinstance(again, ScimCredentialMade)
    secrets.add(again.token)
    await Directory(it, again.token, made.record.id).user("tim@example.com", locale="en US")
    await it.perform(END_SCIM_CREDENTIAL, one)
    for operation in (VERIFY, UNVERIFY):
        assert await it.perform(operation, {"client_id": "web"}) == Done(changed=True)
    web = await it.read(lambda tx: tx.clients.find("web"))
    assert web is not None
    await it.perform(END_SECRET, {"client_id": "web", "secret_id": web.secrets[0].id})
    secrets.add(fresh.secret.reveal())


async def _groups(it: Harness, secrets: set[str]) -> None:
    await it.perform(CREATE_GROUP, {}, GroupWanted("staff"))
    member = {"group": "staff", "uid": str(ADA)}
    await it.perform(ADD_GROUP_MEMBER, member)
    await it.perform(REMOVE_GROUP_MEMBER, member)
    await it.perform(CHANGE_GROUP, {"group": "staff"}, GroupChange("everyone"))
    await it.perform(DELETE_GROUP, {"group": "everyone"})
    await webhooks(it, secrets)
    await signal_streams(it, next(iter(it.clients)), secrets)
    await providers(it, secrets)
    await it.write(lambda tx: declare_attribute(tx, Attribute("team"), it.clock.now))
    await it.write(lambda tx: remove_attribute(tx, "team", it.clock.now))
    claim = DeclaredClaim("tenant", "constant:eu", (ClaimLocation.ID_TOKEN,))
    await it.write(lambda tx: declare_claim(tx, claim, "", it.clock.now))
    await it.write(lambda tx: remove_claim(tx, "tenant", it.clock.now))


async def _roles(it: Harness) -> None:
    now = it.clock.now

    def work(tx: Transaction) -> None:
        metadata = ApiMetadata("https://roles.example", "Roles", roles=("editor",))
        api = registrar_of(it.foundation.services, "test").register(
            tx, metadata, now, api_id="roles"
        )
        user = tx.users.find_to_change(ADA)
        group = groups.create(tx, Group("gr_roles", "editors", "", "", now), now)
        assert isinstance(api, Api)
        assert isinstance(group, Group)
        assert user is not None
        assert assign(tx, user, api, "editor", now)
        assert withdraw_role(tx, user, api, "editor", now)
        assert assign_group(tx, group, api, "editor", now)
        assert withdraw_group(tx, group, api, "editor", now)

    await it.write(work)


async def _account(it: Harness) -> None:
    """Everything a person does who looks after their account."""
    assert await it.write(lambda tx: end_apps(tx, ADA, it.clock.now))


async def _registered(it: Harness, secrets: set[str]) -> None:
    """Apps that register themselves, and those who let them."""
    keeper, now = it.foundation.self_registrar(), it.clock.now
    token = fresh_secret(Prefix.INVITATION, SYSTEM.random)
    metadata = keeper.read({"redirect_uris": [CALLBACK]})
    fresh = [draw(SYSTEM.random) for _ in "12"]

    def work(tx: Transaction) -> None:
        invitation = InitialAccessToken("in_1", "a note", 3, now, _FAR)
        invite(tx, keeper.fingerprints, token, invitation, now)
        assert withdraw(tx, "in_1", now)
        one, other = [
            keeper.register(tx, metadata, registration, now).client for registration in fresh
        ]
        assert adopt(tx, one.id, now)
        keeper.remove(tx, other, now)

    await it.write(work)
    secrets |= {token.reveal(), *(registration.secret.reveal() for registration in fresh)}
    secrets |= {registration.token.reveal() for registration in fresh}


def test_every_event_is_produced_and_none_carries_a_secret(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        secrets = {SECRET, _WORD}
        await it.client(
            "web",
            grant_types=("authorization_code", "refresh_token", "client_credentials"),
            openid=OpenIdRegistration(backchannel_logout_uri="https://app.example/logout"),
        )
        await it.client("spa", type="public")
        await it.password(_WORD)
        await _pages(it, secrets)
        await _apps(it, secrets)
        await _courier(it, 200)
        await _courier(it, 503)
        await letters(it)
        await imports(it, secrets)
        await _account(it)
        await _groups(it, secrets)
        await _roles(it)
        await apis(it)
        await devices(it, _WORD, secrets)
        await ends(it)
        await second_factors(it, secrets)
        await _registered(it, secrets)
        await teams(it, secrets)
        await _desk(it, secrets)
        await _programs(it, secrets)
        await links(it)
        secrets.add(await ada_as_owner(it))
        await alerts(it)
        records = await it.read(lambda tx: tx.events.page(Instant(0), "", 10_000))
        # Written while no server runs, by the command line: see test_restore.
        offline = {"database.restored"}
        # Between two servers: see test_id_jag.
        between = {"identity_assertion.issued", "identity_assertion.redeemed"}
        seen = {record.name for record in records} | offline | between
        assert seen == {event.name for event in EVENTS}, "cause each event in a story beside this"
        fields = {event.name: set(event.__struct_fields__) for event in EVENTS}
        reasons = {event.name: event.reasons for event in EVENTS if event.reasons}
        for record in records:
            data = json.loads(record.data)
            assert set(data) == fields[record.name]
            # Why an email was not delivered may also be what the mail server says.
            if record.name in reasons and record.name != "mail.given_up":
                assert data["because"] in reasons[record.name], record.name
            assert record.client_id == data.get("client_id")
            assert record.uid == data.get("uid")
            assert record.grant_id == data.get("grant_id")
            assert not any(secret in record.data for secret in secrets), record.name

    run(tmp_path, story, features=(ScimSettings(enabled=True),))


@pytest.mark.parametrize("rounds", [1, 3])
def test_operation_that_changes_nothing_records_no_event(tmp_path: Path, rounds: int) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web", redirect_uris=(CALLBACK,))
        registrar, accounts = it.foundation.registrar("test"), it.foundation.accounts()

        def nothing(tx: Transaction) -> None:
            user = tx.users.find(ADA)
            assert user is not None
            same = UserRecord(user.username, user.email, user.name, email_verified=False)
            assert accounts.change(tx, user, same, it.clock.now) == user
            again = registrar.change(tx, client, replace(metadata_of(client)), it.clock.now)
            assert isinstance(again, Client)
            assert not registrar.enable(tx, client, it.clock.now)
            assert not accounts.enable(tx, user, it.clock.now)

        for _ in range(rounds):
            await it.write(nothing)
            await it.token("web", "/oauth/revoke", token="x")
            await it.introspect("x")
            await it.foundation.keys.maintain(it.clock.now)
        assert await it.events() == []

    run(tmp_path, story)


def test_reasons_for_removed_clients_are_documented() -> None:
    docstring = ClientRemoved.__doc__ or ""
    assert set(re.findall(r"`(\w+)`", docstring)) == {"because", *get_args(RemovedBecause)}
    assert not docstring.startswith("A client that had registered itself")
