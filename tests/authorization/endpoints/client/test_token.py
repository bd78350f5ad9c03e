"""The token endpoint: what it answers, what it notes, and what odd requests do to it."""

from pathlib import Path

import pytest

from tests.support.asgi import basic
from tests.support.harness import CALLBACK, SECRET, Harness, run
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import hours
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import fresh_id


def test_token_response_has_only_the_specified_fields(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.tokens("web", "notes:read account:read")
        fields = answer.json
        assert answer.headers["cache-control"] == "no-store"
        assert isinstance(fields.pop("access_token"), str)
        assert isinstance(fields.pop("refresh_token"), str)
        assert fields == {
            "token_type": "bearer",
            "expires_in": 3600,
            "scope": "notes:read account:read",
            "uid": 1001,
            "info": {"name": "Ada", "email": "ada@example.com", "email_verified": False},
        }

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("scope", "told"), [("read", True), ("account:read", True), ("notes:read write", False)]
)
def test_info_is_returned_only_with_a_scope_that_reads_the_account(
    tmp_path: Path, scope: str, told: bool
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        assert bool((await it.tokens("web", scope)).json["info"]) is told

    run(tmp_path, story)


def test_client_credentials_response_contains_no_user(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        fields = (await it.token("svc", "/token", grant_type="client_credentials")).json
        assert isinstance(fields.pop("access_token"), str)
        assert fields == {
            "token_type": "bearer",
            "expires_in": 3600,
            "scope": "client:read client:write",
        }
        assert await it.events() == ["access_token.issued"]

    run(tmp_path, story)


def test_short_token_path_refuses_other_grant_types_and_names_their_path(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.token("svc", "/token", grant_type="password")
        answer.refused(400, "unsupported_grant_type")
        assert "/oauth/token serves the others" in answer.text("error_description")

    run(tmp_path, story)


def test_grant_type_not_registered_for_the_client_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.token("web", grant_type="client_credentials")
        answer.refused(400, "unauthorized_client")

    run(tmp_path, story)


def test_client_secret_in_the_url_is_counted_even_if_the_request_fails(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("authorization_code", "client_credentials"))
        await it.client("strict", profile="modern")
        own = f"client_id=web&client_secret={SECRET}&grant_type="
        good = await it.call("POST", f"/oauth/token?{own}client_credentials")
        assert good.status == 200
        assert good.headers["deprecation"].startswith("@")
        (await it.call("POST", f"/oauth/token?{own}authorization_code")).refused(
            400, "invalid_request"
        )
        query = f"client_id=strict&client_secret={SECRET}&grant_type=authorization_code&code=x"
        (await it.call("POST", f"/oauth/token?{query}")).refused(400, "invalid_request")
        for client_id, requests in (("web", 2), ("strict", 1)):
            seen = await it.read(lambda tx, c=client_id: tx.clients.query_credential_use(c))  # type: ignore[misc]
            assert seen is not None
            assert (seen.requests, seen.last_seen_at) == (requests, it.clock.now)

    run(tmp_path, story)


def test_parameters_in_both_query_and_body_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        own = f"client_id=svc&client_secret={SECRET}"
        both = await it.post(f"/token?{own}", {"grant_type": "client_credentials"})
        both.refused(400, "invalid_request")

    run(tmp_path, story)


def test_assertion_is_used_up_even_when_the_request_is_refused(tmp_path: Path) -> None:
    key = SigningKey.generate(Algorithm.ES256)
    keys = KeySet.of(key.public).document().decode()

    async def story(it: Harness) -> None:
        await it.client("pk", key_set=keys)
        credentials = {
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": key_assertion(it, key, "pk"),
        }
        first = await it.token("pk", grant_type="authorization_code", **credentials)
        first.refused(400, "invalid_request")
        code = await it.code("pk")
        (await it.exchange("pk", code, **credentials)).refused(401, "invalid_client")
        credentials["client_assertion"] = key_assertion(it, key, "pk")
        assert (await it.exchange("pk", code, **credentials)).status == 200

    run(tmp_path, story)


def key_assertion(it: Harness, key: SigningKey, client_id: str) -> str:
    """An assertion of this client, not used before."""
    claims: jwt.Claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": it.foundation.issuer,
        "exp": it.clock.now + 60,
        "jti": fresh_id("jt", SYSTEM.random),
    }
    return jwt.sign(claims, key, typ="jwt")


_ODD = (
    b"grant_type=%ED%A0%80",
    b"grant_type=a%00b&client_id=web",
    b"grant_type=authorization_code&client_id=%00&client_secret=x",
    b"grant_type=authorization_code&client_id=web&client_secret=%ED%B0%80",
    b"grant_type=client_credentials&client_id=" + b"a" * 60_000,
    b"grant_type=authorization_code&resource=https://a.example&resource=https://b.example",
    b"grant_type=authorization_code&client_id=\xff",
    b"&=&",
)


@pytest.mark.parametrize("body", _ODD)
def test_malformed_requests_are_refused_without_a_server_error(tmp_path: Path, body: bytes) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        assert (await it.post("/oauth/token", body)).status in {400, 401}
        assert (await it.call("POST", f"/oauth/token?{body.decode('latin-1')}")).status in {
            400,
            401,
            414,
        }

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"scope": "read " * 300}, "invalid_scope"),
        ({"scope": 'a"b'}, "invalid_scope"),
        ({"scope": "notes:read"}, "invalid_scope"),
        ({"resource": "https://other.example"}, "invalid_target"),
    ],
)
def test_client_credentials_refuse_invalid_scopes_and_resources(
    tmp_path: Path, said: dict[str, str], code: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        answer = await it.token("svc", grant_type="client_credentials", **said)
        answer.refused(400, code)
        api = it.settings.resource.url
        await it.own_token("svc", resource=api, scope="client:read")
        # A parameter without a value counts as omitted.
        await it.own_token("svc", resource="", scope="")

    run(tmp_path, story)


def test_basic_credentials_without_client_id_in_the_body_are_accepted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        form = {"grant_type": "client_credentials"}
        assert (await it.post("/token", form, basic("svc", SECRET))).status == 200
        wrong = await it.post("/token", form, basic("svc", SECRET[1:]))
        wrong.refused(401, "invalid_client")
        assert wrong.headers["www-authenticate"].startswith("Basic ")
        (await it.post("/token", form, "Bearer abc")).refused(401, "invalid_client")

    run(tmp_path, story)


def test_public_client_is_refused_with_a_secret_and_accepted_without(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("spa", type="public", requires_pkce=True)
        code = await it.code("spa")
        answer = await it.exchange("spa", code, client_secret=SECRET)
        answer.refused(401, "invalid_client")
        assert (await it.exchange("spa", code, redirect_uri=CALLBACK)).status == 200

    run(tmp_path, story)


def test_access_token_lifetime_is_that_registered_for_its_client(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("brief", access_token_lifetime=hours(2), access_token_format="reference")
        answer = await it.tokens("brief")
        assert answer.json["expires_in"] == hours(2)
        token = answer.text("access_token")
        it.clock.forward(hours(2) - 1)
        assert (await it.introspect(token))["active"] is True
        it.clock.forward(1)
        assert await it.introspect(token) == {"active": False}

    run(tmp_path, story)
