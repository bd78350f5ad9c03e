"""Responses about tokens are kept for the client they were built for, and for no other."""

from pathlib import Path
from unittest.mock import patch

from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.model.client import client_without_rights
from valetkey.authorization.operations.user_records import UserChange
from valetkey.authorization.tokens.read import CachedAnswer
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.web.exchange import Response, json_response

_ENDPOINTS = "valetkey.authorization.endpoints.client"
_SIGNED = "application/token-introspection+jwt"
_OPERATIONS = {operation.id: operation for operation in OPERATIONS}


async def _userinfo(it: Harness, token: str) -> Answer:
    return await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")


def test_only_small_responses_are_cached_for_the_same_client_object() -> None:
    one, equal = (client_without_rights("web", Instant(0)) for _ in range(2))
    kept, response = CachedAnswer("known"), Response(200, b"{}")
    assert kept.response_to(one) is None
    kept.keep(one, response)
    assert kept.response_to(one) is response
    assert kept.response_to(equal) is None
    kept.keep(equal, Response(200, b"x" * 2_049))
    assert (kept.response_to(one), kept.response_to(equal)) == (response, None)


def test_introspection_is_encoded_once_for_each_caller_and_again_after_a_change(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format="reference")
        await it.client("other")
        token = (await it.tokens("web")).text("access_token")
        first = await it.introspect(token)
        with patch(
            f"{_ENDPOINTS}.introspection.json_response", side_effect=json_response
        ) as encoded:
            for _ in range(3):
                assert await it.introspect(token) == first
            assert encoded.call_count == 1
            other = await it.token("other", "/oauth/introspect", token=token)
            assert other.json == {"active": False}
            own = await it.token("web", "/oauth/introspect", token=token)
            assert own.json == first
            assert await it.introspect(token) == first
        await it.perform(_OPERATIONS["delete_user_app"], {"uid": str(ADA), "client_id": "web"})
        assert await it.introspect(token) == {"active": False}

    run(tmp_path, story, database_url)


def test_cached_introspection_is_not_used_for_signed_responses_or_after_expiry(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format="reference", access_token_lifetime=60)
        token = (await it.tokens("web")).text("access_token")
        form = {"client_id": "web", "client_secret": "s" * 40, "token": token}
        for _ in range(3):
            plain = await it.post("/oauth/introspect", form)
            signed = await it.post("/oauth/introspect", form, accept=_SIGNED)
            assert plain.headers["content-type"] == "application/json"
            assert signed.headers["content-type"] == _SIGNED
        it.clock.forward(58)
        assert (await it.post("/oauth/introspect", form)).json["active"] is True
        assert (await it.post("/oauth/introspect", form)).json["active"] is True
        it.clock.forward(2)
        assert (await it.post("/oauth/introspect", form)).json == {"active": False}

    run(tmp_path, story)


def test_userinfo_is_encoded_once_and_again_after_a_change(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=("openid", "profile"))
        token = (await it.tokens("web", "openid profile")).text("access_token")
        with patch(f"{_ENDPOINTS}.userinfo.json_response", side_effect=json_response) as encoded:
            answers = [await _userinfo(it, token) for _ in range(3)]
            assert encoded.call_count == 1
            assert len({answer.body for answer in answers}) == 1
            assert [answer.headers for answer in answers] == [answers[0].headers] * 3
            change = UserChange(name="Countess")
            await it.perform(_OPERATIONS["change_user"], {"uid": str(ADA)}, change)
            assert (await _userinfo(it, token)).json["name"] == "Countess"
        await it.perform(_OPERATIONS["disable_user"], {"uid": str(ADA)})
        assert (await _userinfo(it, token)).status == 401

    run(tmp_path, story, database_url)


def test_userinfo_of_pairwise_and_signing_clients_is_not_kept(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web", scopes=("openid",))
        pairwise = replace(client.openid, subject_type="pairwise")
        await it.change(replace(client, openid=pairwise))
        token = (await it.tokens("web", "openid")).text("access_token")
        with patch.object(CachedAnswer, "keep") as keep:
            sub = (await _userinfo(it, token)).text("sub")
            assert (await _userinfo(it, token)).text("sub") == sub != str(ADA)
            signed = replace(client.openid, userinfo_signed_response_alg="ES256")
            await it.change(replace(client, openid=signed))
            token = (await it.tokens("web", "openid")).text("access_token")
            assert (await _userinfo(it, token)).headers["content-type"] == "application/jwt"
            assert keep.call_count == 0

    run(tmp_path, story)
