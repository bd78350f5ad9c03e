"""The implicit grant: off by default, and short where it is on (RFC 6749 section 4.2)."""

from pathlib import Path

from tests.support.harness import NOON, Harness
from tests.support.plain_browser import usual
from tests.support.visitors import API, ISSUER, WEB, run
from valetkey.authorization.model.client import AccessTokenFormat
from valetkey.authorization.tokens.issue import ACCESS_TOKEN
from valetkey.kernel.jose import access_token
from valetkey.kernel.replace import replace

IMPLICIT = replace(WEB, id="imp1", grant_types=frozenset({"implicit", "refresh_token"}))


def test_gr_01_disabled_implicit_grant_is_refused_in_the_fragment(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.browser().get("/oauth/authorize", **usual(response_type="token"))
        assert answer.told == {}
        assert answer.told_in_fragment["error"] == "unauthorized_client"
        assert answer.told_in_fragment["state"] == "xyz"
        assert answer.told_in_fragment["iss"] == ISSUER

    run(tmp_path, story)


def test_gr_03_enabled_implicit_grant_returns_a_short_lived_token(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(IMPLICIT)
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="imp1", response_type="token"))
        assert "10 minutes" in page.body
        answer = await alice.allow(page, scope=["notes:read"])
        assert answer.status == 303
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.location.startswith("https://app.example/cb#access_token=")
        response = answer.told_in_fragment
        assert list(response) == [
            "access_token",
            "token_type",
            "expires_in",
            "scope",
            "uid",
            "state",
            "iss",
        ]
        assert (response["token_type"], response["expires_in"], response["uid"]) == (
            "bearer",
            "600",
            "1001",
        )
        assert (response["scope"], response["state"], response["iss"]) == (
            "notes:read",
            "xyz",
            ISSUER,
        )
        keys = it.authorize.minter.keys.published(it.clock.now)
        token = access_token.verify(
            response["access_token"], keys, issuer=ISSUER, audience=API, now=it.clock.now
        )
        assert (token.client_id, token.subject, token.expires_at) == ("imp1", "1001", NOON + 600)
        grant_id = token.grant_id or ""
        stored_grant = await it.store.read(lambda tx: tx.grants.find(grant_id))
        assert stored_grant is not None
        assert stored_grant.grant.grant_type == "implicit"
        assert stored_grant.grant.refresh_print is None
        assert stored_grant.grant.expires_at == NOON + 600
        assert sorted(await it.events()) == [
            "access_token.issued",
            "consent.given",
            "session.started",
        ]

    run(tmp_path, story, database_url)


def test_gr_11_implicit_grant_disabled_during_the_request_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(IMPLICIT)
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="imp1", response_type="token"))
        await it.change(replace(IMPLICIT, grant_types=frozenset({"authorization_code"})))
        answer = await alice.allow(page)
        assert answer.told_in_fragment["error"] == "unauthorized_client"
        assert await it.count("grants") == 0

    run(tmp_path, story)


def test_reference_token_of_the_implicit_grant_is_stored(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(IMPLICIT, access_token_format=AccessTokenFormat.REFERENCE))
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="imp1", response_type="token"))
        token = (await alice.allow(page)).told_in_fragment["access_token"]
        assert token.startswith("vk_at_")
        mark = it.server.keyring.fingerprint_key.fingerprint(ACCESS_TOKEN, token)
        stored_token = await it.store.read(lambda tx: tx.access_tokens.find(mark))
        assert stored_token is not None
        assert stored_token[0].uid == 1001

    run(tmp_path, story)
