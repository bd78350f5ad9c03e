"""Claims that come from what a sign-in provider said: kept, replaced and removed, both engines."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.account.removal import ExportOrigin, export
from valetkey.authorization.features import hooks
from valetkey.authorization.model.api import Claims
from valetkey.authorization.model.user import User
from valetkey.authorization.providers.rules.identities import (
    ClaimedIdentity,
    connect,
    disconnect,
    user_of_identity,
)
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.kernel.jose.jwt import parse
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret

GOOGLE, OTHER = "https://accounts.google.com", "https://id.example.com"
_EVERYWHERE = ["id_token", "userinfo", "access_token"]


def _provider(id: str, issuer: str, *keep: str) -> ProviderSettings:
    return ProviderSettings(id, id, ProviderKind.OPENID, issuer, "us", keep_claims=keep)


PROVIDERS = FederationSettings(
    (_provider("google", GOOGLE, "hd", "https://a.example/unit"), _provider("other", OTHER, "hd")),
    Secret("google=s,other=s"),
)


def _said(token: str) -> Mapping[str, object]:
    claims: Mapping[str, object] = json.loads(parse(token, ("jwt", "at+jwt")).payload)
    return claims


async def _sign_in(
    it: Harness, subject: str, kept: Mapping[str, object] | None, issuer: str = GOOGLE
) -> None:
    claimed = ClaimedIdentity(issuer, subject, kept_claims=kept)
    user = await it.write(lambda tx: user_of_identity(tx, claimed, it.clock.now))
    assert user is not None


async def _link(
    it: Harness, subject: str, kept: Mapping[str, object] | None, issuer: str = GOOGLE
) -> None:
    def link(tx: Transaction) -> bool:
        user = tx.users.find(ADA)
        assert user is not None
        return connect(tx, user, ClaimedIdentity(issuer, subject, kept_claims=kept), it.clock.now)

    assert await it.write(link)


async def _unlink(it: Harness, subject: str) -> None:
    def unlink(tx: Transaction) -> bool:
        user = tx.users.find(ADA)
        assert user is not None
        return disconnect(tx, user, GOOGLE, subject, it.clock.now, {GOOGLE, OTHER})

    assert await it.write(unlink)


class _Reader:
    """Refreshes one grant, and reads a claim in each of its tokens."""

    def __init__(self, it: Harness, owner: Caller) -> None:
        self.it = it
        self.owner = owner
        self.refresh_token = ""

    async def begin(self) -> None:
        await self.it.client(
            "app", scopes=("openid", "profile", "notes:read"), access_token_format="jwt"
        )
        tokens = await self.it.exchange("app", await self.it.code("app", "openid profile"))
        self.refresh_token = tokens.text("refresh_token")

    async def value(self, name: str) -> object:
        """Return the claim, after checking that each token and the preview have the same."""
        it = self.it
        tokens = await it.refresh("app", self.refresh_token)
        assert tokens.status == 200, tokens.body
        self.refresh_token = tokens.text("refresh_token")
        token = tokens.text("access_token")
        userinfo = await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")
        preview = (await self.owner.call("GET", f"/users/{ADA}/claims/app")).json
        claim_sets = [_said(tokens.text("id_token")), _said(token), userinfo.json]
        for part in ("id_token", "access_token", "userinfo"):
            shown = preview[part]
            assert isinstance(shown, dict)
            claim_sets.append(shown)
        values = [claims.get(name) for claims in claim_sets]
        assert all(claim == values[0] for claim in values), values
        return values[0]


def test_tokens_contain_the_provider_claims_of_the_last_sign_in(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        reader = _Reader(it, owner)
        await reader.begin()
        body = {"from": "upstream:google:hd", "in": _EVERYWHERE}
        assert (await owner.call("PUT", "/claims/tenant", body)).json == {"changed": True}
        assert await reader.value("tenant") is None
        await _link(it, "1", {"hd": "a.example"})
        assert await reader.value("tenant") == "a.example"
        await _sign_in(it, "1", {"hd": "b.example"})
        assert await reader.value("tenant") == "b.example"
        # Another provider cannot say it.
        await _link(it, "9", {"hd": "evil.example"}, OTHER)
        await _sign_in(it, "9", {"hd": "worse.example"}, OTHER)
        assert await reader.value("tenant") == "b.example"
        # Of two accounts at one provider, the one that was used last counts.
        await _link(it, "2", {"hd": "c.example"})
        assert await reader.value("tenant") == "c.example"
        await _sign_in(it, "1", {})
        assert await reader.value("tenant") is None
        await _sign_in(it, "1", {"hd": ["d", {"e": 1}]})
        assert await reader.value("tenant") == ["d", {"e": 1}]
        # The user has a password: a link can be removed.
        await _unlink(it, "2")
        assert await reader.value("tenant") == ["d", {"e": 1}]
        await _unlink(it, "1")
        assert await reader.value("tenant") is None
        await _link(it, "1", {"hd": "a.example", "https://a.example/unit": 7})
        await owner.call(
            "PUT",
            "/claims/unit",
            {"from": "upstream:google:https://a.example/unit", "in": _EVERYWHERE},
        )
        assert await reader.value("unit") == 7
        ada = await it.read(lambda tx: tx.users.find(ADA))
        assert ada is not None
        exported = json.loads(
            await it.write(lambda tx: export(tx, ada, ExportOrigin("x", "x", ""), it.clock.now))
        )
        kept = {
            account["issuer"]: account["kept_claims"] for account in exported["accounts_elsewhere"]
        }
        assert kept == {
            GOOGLE: {"hd": "a.example", "https://a.example/unit": 7},
            OTHER: {"hd": "worse.example"},
        }
        # A provider that keeps nothing any more forgets it at the next sign-in.
        await _sign_in(it, "1", None)
        assert await reader.value("unit") is None

    run(tmp_path, story, database_url, features=(PROVIDERS,))


def _evaluated(claims: TokenClaims, user: User | None, tx: Transaction) -> Claims:
    return claims.of_access_token(tx, "app", claims.default, Scope(), user)


def test_claim_of_unnamed_provider_or_claim_is_refused_and_no_longer_issued(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for source in ("upstream:hd", "upstream:google:email", "upstream:x:hd", "upstream"):
            body = {"from": source, "in": ["id_token"]}
            assert (await owner.call("PUT", "/claims/x", body)).status == 400, source
        body = {"from": "upstream:google:hd", "in": _EVERYWHERE}
        assert (await owner.call("PUT", "/claims/tenant", body)).status == 200
        await _link(it, "1", {"hd": "a.example"})
        ada = await it.read(lambda tx: tx.users.find(ADA))
        # The setting names the claim no more: what is stored counts no more.
        less = _provider("google", GOOGLE, "department")
        for provider, expected in ((PROVIDERS.providers[0], {"tenant": "a.example"}), (less, {})):
            settings = replace(it.settings, features=(FederationSettings((provider,)),))
            store = replace(it.store, hooks=hooks(settings))
            claims = TokenClaims(store, it.foundation.default_api)
            evaluated = await store.read(partial(_evaluated, claims, ada))
            assert evaluated == expected

    run(tmp_path, story, features=(PROVIDERS,))
