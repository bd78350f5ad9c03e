"""Introspection tells an API who its user is, where the operator declared that."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.support.asgi import basic
from tests.support.harness import ADA, Harness, run
from valetkey.kernel.jose.jwt import parse

MAIL = "https://mail.example"
OTHER = "https://other.example"
FORMATS = ["jwt", "reference"]


async def _declare(owner: Caller, *names: str, **more: object) -> None:
    for name in names:
        body = {"from": name, "in": ["introspection"], **more}
        answer = await owner.call("PUT", f"/claims/{name}", body)
        assert answer.json == {"changed": True}, answer.body


async def _api(owner: Caller, identifier: str, kind: str) -> tuple[str, str]:
    """Declare an API; return its id and its secret."""
    body: dict[str, object] = {"identifier": identifier, "name": "Mail", "shares_scopes": True}
    body |= {"scopes": {"mail:read": "read your mail"}, "access_token_format": kind}
    made = await owner.call("POST", "/apis", body)
    assert made.status == 201, made.body
    api_id = str(made.json["api_id"])
    secret = await owner.call("POST", f"/apis/{api_id}/secrets", {})
    return api_id, str(secret.json["client_secret"])


async def _introspect(it: Harness, api: tuple[str, str], token: str) -> Mapping[str, object]:
    answer = await it.post("/oauth/introspect", {"token": token}, basic(*api))
    assert answer.status == 200, answer.body
    return answer.json


async def _token(it: Harness, api: tuple[str, str], audience: str) -> str:
    code = await it.code("app", f"openid {api[0]}#mail:read", apis=((api[0], 0),))
    answer = await it.exchange("app", code, resource=audience)
    assert answer.status == 200, answer.body
    return answer.text("access_token")


@pytest.mark.parametrize("kind", FORMATS)
def test_introspection_has_the_current_username_and_verified_email(
    tmp_path: Path, database_url: str, kind: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        api = await _api(owner, MAIL, kind)
        await it.client("app", scopes=("openid",))
        token = await _token(it, api, MAIL)
        introspection = await _introspect(it, api, token)
        assert introspection["active"] is True
        assert not {"username", "email"} & introspection.keys()
        await _declare(owner, "username", "email")
        if kind == "jwt":
            assert b"username" not in parse(token, ("at+jwt",)).payload
        introspection = await _introspect(it, api, token)
        assert (introspection["username"], introspection["sub"], "email" in introspection) == (
            "ada",
            str(ADA),
            False,
        )
        assert (await owner.call("POST", f"/users/{ADA}/verify-email")).status == 200
        introspection = await _introspect(it, api, token)
        assert (introspection["username"], introspection["email"]) == ("ada", "ada@example.com")
        user = await owner.call("GET", f"/users/{ADA}")
        headers = {"if-match": user.headers["etag"]}
        renamed = await owner.call(
            "PATCH", f"/users/{ADA}", {"username": "countess"}, headers=headers
        )
        assert renamed.status == 200, renamed.body
        introspection = await _introspect(it, api, token)
        assert (introspection["username"], introspection["sub"]) == ("countess", str(ADA))
        assert (await owner.call("DELETE", "/claims/username")).json == {"changed": True}
        assert "username" not in await _introspect(it, api, token)

    run(tmp_path, story, database_url)


@pytest.mark.parametrize("kind", FORMATS)
def test_username_is_returned_only_to_the_api_of_the_token(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        api, other = await _api(owner, MAIL, kind), await _api(owner, OTHER, kind)
        await it.client("app", scopes=("openid",))
        await it.client("stranger")
        await _declare(owner, "username", apis=[MAIL])
        token = await _token(it, api, MAIL)
        # The client first and last: what was cached for one caller is not told to another.
        for _ in range(2):
            own = await it.token("app", "/oauth/introspect", token=token)
            assert own.json["active"] is True
            assert "username" not in own.json
            assert (await _introspect(it, api, token))["username"] == "ada"
        inactive = {"active": False}
        assert await _introspect(it, other, token) == inactive
        assert await it.introspect(token) == inactive
        assert (await it.token("stranger", "/oauth/introspect", token=token)).json == inactive
        # Declared for one API, it is not for another, nor for the default one.
        there = await _token(it, other, OTHER)
        assert "username" not in await _introspect(it, other, there)
        default = (await it.tokens("app", "openid")).text("access_token")
        introspection = await it.introspect(default)
        assert introspection["active"] is True
        assert "username" not in introspection

    run(tmp_path, story)


@pytest.mark.parametrize("kind", FORMATS)
def test_default_api_gets_claims_by_scope_and_client_for_access_tokens_only(
    tmp_path: Path, kind: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for name in ("app", "other"):
            await it.client(name, access_token_format=kind)
        await _declare(owner, "username", scope="notes:read", clients=["app"])
        tokens = await it.tokens("app", "notes:read")
        for _ in range(2):
            assert (await it.introspect(tokens.text("access_token")))["username"] == "ada"
        assert "username" not in await it.introspect(tokens.text("refresh_token"))
        for client, scope in (("app", "read"), ("other", "notes:read")):
            token = (await it.tokens(client, scope)).text("access_token")
            introspection = await it.introspect(token)
            assert (introspection["active"], "username" in introspection) == (True, False)
        token = tokens.text("access_token")
        await it.token("app", "/oauth/revoke", token=token)
        assert await it.introspect(token) == {"active": False}

    run(tmp_path, story)


@pytest.mark.parametrize("kind", FORMATS)
def test_clients_own_token_has_no_username(tmp_path: Path, kind: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await _declare(owner, "username", "email")
        await it.client("svc", grant_types=("client_credentials",), access_token_format=kind)
        introspection = await it.introspect(await it.own_token("svc"))
        assert (introspection["active"], introspection["sub"]) == (True, "svc")
        assert not {"username", "email"} & introspection.keys()

    run(tmp_path, story)


def test_username_and_email_can_be_declared_only_for_introspection(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        wrong: list[tuple[str, str, list[str], str]] = [
            ("username", "username", ["access_token"], "in"),
            ("email", "email", ["introspection", "id_token"], "in"),
            ("user", "username", ["userinfo"], "in"),
            ("username", "email", ["introspection"], "name"),
            ("email", "constant:a@b.example", ["introspection"], "name"),
            ("sub", "username", ["introspection"], "name"),
            ("username", "username:x", ["introspection"], "from"),
            ("tenant", "constant:eu", ["introspection"], "in"),
        ]
        for name, source, places, field in wrong:
            answer = await owner.call("PUT", f"/claims/{name}", {"from": source, "in": places})
            assert answer.status == 400, (name, source, answer.body)
            assert f'"pointer":"/{field}' in answer.body.decode().replace(" ", ""), answer.body
        # Under the name that an API reads.
        body = {"from": "email", "in": ["introspection"]}
        assert (await owner.call("PUT", "/claims/mailbox", body)).json == {"changed": True}
        assert (await owner.call("POST", f"/users/{ADA}/verify-email")).status == 200
        await it.client("app")
        token = (await it.tokens("app")).text("access_token")
        assert (await it.introspect(token))["mailbox"] == "ada@example.com"
        preview = await owner.call("GET", f"/users/{ADA}/claims/app")
        assert preview.json["introspection"] == {"mailbox": "ada@example.com"}

    run(tmp_path, story)
