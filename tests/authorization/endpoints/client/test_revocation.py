"""A client gives a token back: what ends with it, and that nobody learns more."""

from pathlib import Path

import pytest

from tests.support.harness import Harness, run

INACTIVE = {"active": False}


@pytest.mark.parametrize("kind", ["jwt", "reference"])
def test_access_token_revocation_keeps_the_refresh_token(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format=kind)
        tokens = await it.tokens("web")
        token = tokens.text("access_token")
        for _ in range(2):
            answer = await it.token("web", "/oauth/revoke", token=token)
            assert (answer.status, answer.body) == (200, b"{}")
            assert answer.headers["cache-control"] == "no-store"
        assert await it.introspect(token) == INACTIVE
        assert (await it.events()).count("access_token.revoked") == 1
        revocations = (await it.feed()).json["revocations"]
        assert isinstance(revocations, list)
        assert [revocation["kind"] for revocation in revocations] == ["token"]
        assert (await it.refresh("web", tokens.text("refresh_token"))).status == 200

    run(tmp_path, story)


@pytest.mark.parametrize("which", ["current", "previous"])
def test_revoked_refresh_token_ends_every_token_of_its_grant(tmp_path: Path, which: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("spa", type="public")
        first = await it.tokens("spa")
        second = await it.refresh("spa", first.text("refresh_token"))
        assert second.status == 200
        tokens = first if which == "previous" else second
        for _ in range(2):
            answer = await it.token("spa", "/oauth/revoke", token=tokens.text("refresh_token"))
            assert answer.status == 200
        assert await it.introspect(first.text("access_token")) == INACTIVE
        assert await it.introspect(second.text("access_token")) == INACTIVE
        refused = await it.refresh("spa", second.text("refresh_token"))
        refused.refused(400, "invalid_grant")
        assert (await it.events()).count("grant.revoked") == 1

    run(tmp_path, story)


def test_revocation_of_tokens_of_other_clients_has_no_effect(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("ref", access_token_format="reference")
        await it.client("other")
        tokens = ["x", "a.b.c", "vk_at_x", "vk_rt_x.gr_1"]
        for client_id in ("web", "ref"):
            response = await it.tokens(client_id)
            tokens += [response.text("access_token"), response.text("refresh_token")]
        # The right grant with a secret of another.
        tokens.append(f"{tokens[-1].partition('.')[0]}.{tokens[-3].partition('.')[2]}")
        for token in tokens:
            answer = await it.token("other", "/oauth/revoke", token=token)
            assert (answer.status, answer.body) == (200, b"{}")
        await it.token("web", "/oauth/revoke", token=tokens[-1])
        for token in tokens[4:-1]:
            assert (await it.introspect(token))["active"] is True
        assert not {"grant.revoked", "access_token.revoked"} & set(await it.events())

    run(tmp_path, story)


def test_a_token_that_expired_is_not_revoked_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("ref", access_token_format="reference")
        token = (await it.tokens("ref")).text("access_token")
        it.clock.forward(3_600)
        assert (await it.token("ref", "/oauth/revoke", token=token)).status == 200
        assert "access_token.revoked" not in await it.events()

    run(tmp_path, story)


def test_request_without_a_token_is_an_invalid_request(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        (await it.token("web", "/oauth/revoke")).refused(400, "invalid_request")
        (await it.token("web", "/oauth/revoke", token="")).refused(400, "invalid_request")

    run(tmp_path, story)


def test_response_is_json_for_clients_that_parse_every_response(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.token("web", "/oauth/revoke", token="unknown")
        assert (answer.status, answer.json) == (200, {})
        assert answer.headers["content-type"] == "application/json"

    run(tmp_path, story)


def test_key_set_is_also_served_at_well_known_jwks_json(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        keys = await it.call("GET", "/.well-known/jwks.json")
        assert keys.status == 200
        assert keys.json == (await it.call("GET", "/oauth/jwks")).json

    run(tmp_path, story)
