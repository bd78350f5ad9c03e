"""What a token is worth, and to whom that is told."""

from pathlib import Path

import pytest

from tests.support.harness import CREDENTIAL, Harness, run
from valetkey.authorization.model.client import RESOURCE_SERVER, AccessTokenFormat
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

INACTIVE = {"active": False}


@pytest.mark.parametrize("kind", ["jwt", "reference"])
def test_active_token_returns_exactly_the_documented_members(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format=kind)
        introspection = await it.introspect((await it.tokens("web")).text("access_token"))
        assert str(introspection.pop("jti")).startswith("at_")
        assert str(introspection.pop("grant_id")).startswith("gr_")
        assert introspection == {
            "active": True,
            "scope": "notes:read",
            "client_id": "web",
            "token_type": "bearer",
            "sub": "1001",
            "aud": it.settings.resource.url,
            "iss": it.foundation.issuer,
            "iat": it.clock.now,
            "exp": it.clock.now + 3_600,
        }

    run(tmp_path, story)


@pytest.mark.parametrize("kind", ["jwt", "reference"])
def test_a_clients_own_token_has_its_id_as_subject_and_no_grant(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",), access_token_format=kind)
        introspection = await it.introspect(await it.own_token("svc"))
        assert (introspection["active"], introspection["sub"], "grant_id" in introspection) == (
            True,
            "svc",
            False,
        )

    run(tmp_path, story)


def test_refresh_token_is_active_only_with_its_own_secret_and_grant_id(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("refresh_token")
        introspection = await it.introspect(token)
        assert (introspection["active"], "token_type" in introspection) == (True, False)
        secret, _, grant_id = token.partition(".")
        assert await it.introspect(f"{secret}.gr_other") == INACTIVE
        other = (await it.tokens("web")).text("refresh_token").partition(".")[0]
        assert await it.introspect(f"{other}.{grant_id}") == INACTIVE
        it.clock.forward(it.settings.tokens.refresh_token_idle_lifetime)
        assert await it.introspect(token) == INACTIVE

    run(tmp_path, story)


def test_introspection_is_limited_to_the_client_and_the_resource_server(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("other")
        await it.client("spa", type="public")
        tokens = (await it.tokens("web")).json
        for name in ("access_token", "refresh_token"):
            token = str(tokens[name])
            own = await it.token("web", "/oauth/introspect", token=token)
            assert own.json["active"] is True
            assert (await it.token("other", "/oauth/introspect", token=token)).json == INACTIVE
            answer = await it.token("spa", "/oauth/introspect", token=token)
            answer.refused(401, "invalid_client")

    run(tmp_path, story)


@pytest.mark.parametrize("token", ["x", "a.b.c", "a.b.", "..", "vk_at_x", "vk_rt_x.gr_1", "é"])
def test_unknown_token_is_inactive_without_details(tmp_path: Path, token: str) -> None:
    async def story(it: Harness) -> None:
        assert await it.introspect(token) == INACTIVE
        missing = await it.token(RESOURCE_SERVER, "/oauth/introspect", client_secret=CREDENTIAL)
        missing.refused(400, "invalid_request")

    run(tmp_path, story)


def _forged(it: Harness, now: Instant) -> AccessToken:
    return AccessToken(
        issuer=it.foundation.issuer,
        subject="1001",
        client_id="web",
        audience=it.settings.resource.url,
        scope=Scope.of("read"),
        token_id="at_1",
        issued_at=now,
        expires_at=Instant(now + 60),
        grant_id="gr_1",
        auth_time=None,
    )


@pytest.mark.parametrize("subject", ["ada", "0", "-1", "1_0", "²", "9" * 17, "1 "])
def test_signed_token_with_an_impossible_subject_is_inactive(tmp_path: Path, subject: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        grant_id = (await it.introspect((await it.tokens("web")).text("access_token")))["grant_id"]
        await it.foundation.keys.refresh(it.clock.now)
        key = it.foundation.keys.current(it.clock.now)
        good = replace(_forged(it, it.clock.now), grant_id=str(grant_id))
        assert (await it.introspect(good.sign(key)))["active"] is True
        token = replace(good, subject=subject).sign(key)
        assert await it.introspect(token) == INACTIVE
        (await it.ask(token, "account", "read")).refused(401, "invalid_token")

    run(tmp_path, story)


def test_signed_token_without_a_stored_grant_or_client_is_inactive(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.foundation.keys.refresh(it.clock.now)
        key = it.foundation.keys.current(it.clock.now)
        token = _forged(it, it.clock.now)
        assert await it.introspect(token.sign(key)) == INACTIVE
        own = replace(token, grant_id=None, subject="gone", client_id="gone")
        assert await it.introspect(own.sign(key)) == INACTIVE

    run(tmp_path, story)


def test_reference_token_with_another_audience_is_inactive(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format="reference")
        token = (await it.tokens("web", "account:read")).text("access_token")
        assert (await it.ask(token, "account", "read")).status == 200

        def move(tx: Transaction) -> int:
            return tx.db.run("UPDATE access_tokens SET audience = 'https://old.example'")

        await it.write(move)
        assert await it.introspect(token) == INACTIVE
        (await it.ask(token, "account", "read")).refused(401, "invalid_token")

    run(tmp_path, story)


@pytest.mark.parametrize("kind", [AccessTokenFormat.JWT, AccessTokenFormat.REFERENCE])
def test_token_ended_by_another_process_is_inactive(
    tmp_path: Path, database_url: str, kind: AccessTokenFormat
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format=kind)
        token = (await it.tokens("web")).text("access_token")
        introspection = await it.introspect(token)
        assert introspection["active"] is True
        assert (await it.introspect(token)) == introspection
        # `it.write` has an engine of its own, as another process would.
        grant_id = str(introspection["grant_id"])
        assert await it.write(lambda tx: tx.grants.revoke(grant_id, it.clock.now, "test"))
        assert await it.introspect(token) == INACTIVE

    run(tmp_path, story, database_url)


@pytest.mark.parametrize("kind", [AccessTokenFormat.JWT, AccessTokenFormat.REFERENCE])
def test_expired_token_is_inactive(tmp_path: Path, kind: AccessTokenFormat) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format=kind)
        token = (await it.tokens("web")).text("access_token")
        introspection = await it.introspect(token)
        assert introspection["active"] is True
        assert (await it.introspect(token)) == introspection
        it.clock.now = Instant(int(str(introspection["exp"])))
        assert await it.introspect(token) == INACTIVE

    run(tmp_path, story)
