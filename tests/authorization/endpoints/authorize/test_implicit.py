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


def test_gr_03_where_it_is_on_a_short_token_comes_in_the_fragment(
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
        told = answer.told_in_fragment
        assert list(told) == [
            "access_token",
            "token_type",
            "expires_in",
            "scope",
            "uid",
            "state",
            "iss",
        ]
        assert (told["token_type"], told["expires_in"], told["uid"]) == ("bearer", "600", "1001")
        assert (told["scope"], told["state"], told["iss"]) == ("notes:read", "xyz", ISSUER)
        keys = it.authorize.minter.keys.published(it.clock.now)
        token = access_token.verify(
            told["access_token"], keys, issuer=ISSUER, audience=API, now=it.clock.now
        )
        assert (token.client_id, token.subject, token.expires_at) == ("imp1", "1001", NOON + 600)
        grant_id = token.grant_id or ""
        found = await it.store.read(lambda tx: tx.grants.find(grant_id))
        assert found is not None
        assert found.grant.grant_type == "implicit"
        assert found.grant.refresh_print is None
        assert found.grant.expires_at == NOON + 600
        assert sorted(await it.events()) == [
            "access_token.issued",
            "consent.given",
            "session.started",
        ]

    run(tmp_path, story, database_url)


def test_gr_11_switched_off_in_flight_it_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(IMPLICIT)
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="imp1", response_type="token"))
        await it.change(replace(IMPLICIT, grant_types=frozenset({"authorization_code"})))
        answer = await alice.allow(page)
        assert answer.told_in_fragment["error"] == "unauthorized_client"
        assert await it.count("grants") == 0

    run(tmp_path, story)


def test_a_token_by_reference_can_be_found_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(IMPLICIT, access_token_format=AccessTokenFormat.REFERENCE))
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="imp1", response_type="token"))
        token = (await alice.allow(page)).told_in_fragment["access_token"]
        assert token.startswith("vk_at_")
        mark = it.server.keyring.fingerprint_key.fingerprint(ACCESS_TOKEN, token)
        found = await it.store.read(lambda tx: tx.access_tokens.find(mark))
        assert found is not None
        assert found[0].uid == 1001

    run(tmp_path, story)
