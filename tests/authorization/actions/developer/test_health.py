"""Health: every finding comes from facts, and disappears once it is fixed."""

from pathlib import Path

from tests.support.harness import NOON, Harness
from tests.support.visitors import ISSUER, NATIVE, SCOPES, WEB, run
from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.usage import (
    PKCE_MISSING,
    PKCE_USED,
    grant_used,
    scope_used,
)
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import Client, ClientSecret, ProfileName
from valetkey.authorization.model.event.accounts import SignInFailed
from valetkey.authorization.portal.rules.monitoring import (
    Finding,
    FindingKind,
    Fix,
    apply_fix,
    findings_of,
)
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint

NEW, OLD = NOON, Instant(NOON + days(91))
GOOD = replace(
    WEB,
    logo_uri="https://app.example/logo.png",
    policy_uri="https://app.example/privacy",
    profile_name=ProfileName.MODERN,
    requires_pkce=True,
    scope=Scope.of("read", "write", "notes:read"),
)
LEGACY = replace(
    GOOD,
    profile_name=ProfileName.CLASSIC,
    grant_types=WEB.grant_types | {"implicit", "password"},
)


def registrar(it: Harness) -> Registrar:
    keyring = it.server.keyring
    rules = ClientRules((ISSUER,), tuple(SCOPES), GRANT_RULES, ProfileName.CLASSIC)
    return Registrar(rules, keyring.fingerprint_key, keyring.sealer, it.server.random, "portal")


async def found(it: Harness, client: Client, at: Instant) -> dict[FindingKind, Finding]:
    await it.store.write(lambda tx: tx.events.sweep(Instant(NOON + 1), 1_000))
    findings = await it.store.read(lambda tx: findings_of(tx, client, at))
    return {finding.sign: finding for finding in findings}


async def note(it: Harness, what: str, at: Instant, client_id: str = "web1") -> None:
    await it.store.write(lambda tx: tx.usage.record(client_id, what, at))


def test_app_that_follows_every_recommendation_has_no_findings(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await note(it, grant_used("authorization_code"), OLD)
        for name in GOOD.scope:
            await note(it, scope_used(name), OLD)
        assert await found(it, GOOD, OLD) == {}
        signs = await found(it, replace(GOOD, logo_uri="", policy_uri=""), OLD)
        assert set(signs) == {FindingKind.NO_LOGO, FindingKind.NO_POLICY}

    run(tmp_path, story)


def test_legacy_grants_are_found_used_or_not(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.change(LEGACY)
        # A new app may not have come to use them yet.
        assert {FindingKind.IMPLICIT_USED, FindingKind.PASSWORD_USED} <= set(
            await found(it, LEGACY, NEW)
        )
        signs = await found(it, LEGACY, OLD)
        assert signs[FindingKind.IMPLICIT_UNUSED].fix is Fix.DROP_IMPLICIT
        assert FindingKind.CLASSIC_NEEDLESS not in signs
        await note(it, grant_used("implicit"), Instant(OLD - days(2)))
        signs = await found(it, LEGACY, OLD)
        assert signs[FindingKind.IMPLICIT_USED].last == OLD - days(2)
        assert FindingKind.PASSWORD_UNUSED in signs

        def press(tx: Transaction, fix: Fix) -> object:
            return apply_fix(tx, registrar(it), LEGACY, fix, OLD)

        assert await it.store.write(lambda tx: press(tx, Fix.DROP_IMPLICIT)) is None
        done = await it.store.write(lambda tx: press(tx, Fix.DROP_PASSWORD))
        assert isinstance(done, Client)
        assert done.grant_types == WEB.grant_types | {"implicit"}

    run(tmp_path, story, database_url)


def test_unused_grants_are_not_reported_while_events_are_uncounted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert FindingKind.IMPLICIT_UNUSED in await found(it, LEGACY, OLD)
        earlier = Instant(OLD - days(1))
        await it.store.write(lambda tx: tx.events.add(SignInFailed(None, "x"), earlier))
        assert FindingKind.IMPLICIT_UNUSED not in await found(it, LEGACY, OLD)

    run(tmp_path, story)


def test_pkce_can_be_required_as_soon_as_every_request_has_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        optional = replace(GOOD, profile_name=ProfileName.CLASSIC, requires_pkce=False)
        assert (await found(it, optional, OLD))[FindingKind.PKCE_UNUSED].fix is None
        await note(it, PKCE_MISSING, Instant(OLD - days(5)))
        await note(it, PKCE_USED, OLD)
        assert (await found(it, optional, OLD))[FindingKind.PKCE_UNUSED].last == OLD - days(5)
        later = Instant(OLD + days(26))
        await note(it, PKCE_USED, later)
        assert (await found(it, optional, later))[FindingKind.PKCE_OPTIONAL].fix is Fix.REQUIRE_PKCE
        await it.change(optional)
        done = await it.store.write(
            lambda tx: apply_fix(tx, registrar(it), optional, Fix.REQUIRE_PKCE, later)
        )
        assert isinstance(done, Client)
        assert done.requires_pkce
        assert not {FindingKind.PKCE_OPTIONAL, FindingKind.PKCE_UNUSED} & set(
            await found(it, done, later)
        )
        assert not {FindingKind.PKCE_OPTIONAL, FindingKind.PKCE_UNUSED} & set(
            await found(it, NATIVE, later)
        )

    run(tmp_path, story)


def test_only_unused_scopes_are_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        client = replace(GOOD, required_scope=Scope.of("write"))
        await it.change(client)
        assert FindingKind.SCOPES_UNUSED not in await found(it, client, OLD)
        await note(it, grant_used("refresh_token"), OLD)
        await note(it, scope_used("read"), Instant(OLD - days(91)))
        finding = (await found(it, client, OLD))[FindingKind.SCOPES_UNUSED]
        assert finding.about == ("read", "notes:read")
        # Somebody asks for one of them between the question and the answer.
        await note(it, scope_used("notes:read"), OLD)
        done = await it.store.write(
            lambda tx: apply_fix(tx, registrar(it), client, Fix.REMOVE_SCOPES, OLD)
        )
        assert isinstance(done, Client)
        assert set(done.scope) == {"write", "notes:read"}

    run(tmp_path, story, database_url)


def test_secrets_in_urls_old_secrets_and_idle_ones_are_found(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        def add(tx: Transaction) -> None:
            secret = ClientSecret("cs_1", Fingerprint("f1"), None)
            tx.clients.add_secret("web1", secret, NOON)
            gone = ClientSecret("cs_0", Fingerprint("f0"), Instant(NOON + 1))
            tx.clients.add_secret("web1", gone, NOON)
            tx.clients.count_query_credentials("web1", Instant(NOON + 5))

        await it.store.write(add)
        signs = await found(it, GOOD, OLD)
        assert signs[FindingKind.SECRET_IN_URL].about == ("cs_1",)
        assert signs[FindingKind.SECRET_IN_URL].last == NOON + 5
        assert signs[FindingKind.SECRET_IDLE].about == ("cs_1",)
        sql = "UPDATE client_secrets SET last_used_at = :at WHERE id = 'cs_1'"
        await it.store.write(lambda tx: tx.db.run(sql, at=NOON + 9))
        assert FindingKind.SECRET_IDLE not in await found(it, GOOD, OLD)
        year = Instant(NOON + days(366))
        assert (await found(it, GOOD, year))[FindingKind.SECRET_OLD].last == NOON
        # Rotated: the new one never travelled in a URL, the old one has ended.
        fresh = ClientSecret("cs_2", Fingerprint("f2"), None)
        await it.store.write(lambda tx: tx.clients.add_secret("web1", fresh, year))
        await it.store.write(lambda tx: tx.clients.expire_other_secrets("web1", "cs_2", year))
        assert not {FindingKind.SECRET_IN_URL, FindingKind.SECRET_OLD} & set(
            await found(it, GOOD, year)
        )

    run(tmp_path, story, database_url)


def test_plain_http_and_a_needless_profile_are_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        local = replace(GOOD, redirect_uris=("http://127.0.0.1:8000/cb", "https://app.example/"))
        finding = (await found(it, local, NEW))[FindingKind.HTTP_REDIRECT]
        assert finding.about == ("http://127.0.0.1:8000/cb",)
        assert FindingKind.HTTP_REDIRECT not in await found(it, NATIVE, NEW)
        classic = replace(GOOD, profile_name=ProfileName.CLASSIC)
        assert FindingKind.CLASSIC_NEEDLESS not in await found(it, classic, NEW)
        assert (await found(it, classic, OLD))[
            FindingKind.CLASSIC_NEEDLESS
        ].fix is Fix.MODERN_PROFILE
        await note(it, PKCE_MISSING, OLD)
        assert FindingKind.CLASSIC_NEEDLESS not in await found(it, classic, OLD)

    run(tmp_path, story)
