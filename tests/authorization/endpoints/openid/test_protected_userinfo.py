"""Userinfo as a JWT: signed, encrypted, or both, as its client registered (Core section 5.3.2)."""

import json
from pathlib import Path

import pytest
from joserfc import jwe, jwt
from joserfc.jwk import ECKey, KeySet

from tests.support.asgi import Answer
from tests.support.harness import Harness, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace

THEIRS = ECKey.generate_key("P-256", {"use": "enc", "kid": "e1", "alg": "ECDH-ES"}, private=True)
ENCRYPTED = OpenIdRegistration(
    encryption_keys=json.dumps({"keys": [THEIRS.as_dict(private=False)]}),
    userinfo_encrypted_response_alg="ECDH-ES",
    userinfo_encrypted_response_enc="A256GCM",
)


async def _told(it: Harness, registration: OpenIdRegistration) -> Answer:
    await it.client("app", scopes=("openid", "email"))

    def work(tx: Transaction) -> None:
        client = tx.clients.find("app")
        assert client is not None
        assert tx.clients.change(replace(client, openid=registration))

    await it.write(work)
    token = (await it.tokens("app", "openid email")).text("access_token")
    return await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")


def _is_protected(answer: Answer) -> bool:
    return (
        answer.status == 200
        and answer.headers["content-type"] == "application/jwt"
        and answer.headers["cache-control"] == "no-store"
        and answer.headers["access-control-allow-origin"] == "*"
    )


async def _verified(it: Harness, text: str) -> dict[str, object]:
    keys = KeySet.import_key_set((await it.call("GET", "/oauth/jwks")).json)  # type: ignore[arg-type]
    return jwt.decode(text, keys, algorithms=["ES256"]).claims


def test_userinfo_is_signed_if_the_client_registered_it(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        answer = await _told(it, OpenIdRegistration(userinfo_signed_response_alg="ES256"))
        assert _is_protected(answer)
        claims = await _verified(it, answer.body.decode())
        assert (claims["iss"], claims["aud"]) == ("http://localhost:8400", "app")
        assert (claims["sub"], claims["email"]) == ("1001", "ada@example.com")
        # It tells about a person and must not pass for news of a sign-in.
        assert not {"exp", "nonce", "auth_time"} & set(claims)

    run(tmp_path, story, database_url)


def test_encrypted_unsigned_userinfo_contains_the_bare_claims(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await _told(it, ENCRYPTED)
        assert _is_protected(answer)
        opened = jwe.decrypt_compact(answer.body, THEIRS, algorithms=["ECDH-ES", "A256GCM"])
        claims = json.loads(opened.plaintext or b"")
        assert (claims["sub"], claims["email"]) == ("1001", "ada@example.com")

    run(tmp_path, story)


def test_signed_and_encrypted_userinfo_is_a_nested_jwt(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await _told(it, replace(ENCRYPTED, userinfo_signed_response_alg="ES256"))
        assert _is_protected(answer)
        opened = jwe.decrypt_compact(answer.body, THEIRS, algorithms=["ECDH-ES", "A256GCM"])
        assert opened.headers()["cty"] == "JWT"
        claims = await _verified(it, (opened.plaintext or b"").decode())
        assert claims["sub"] == "1001"

    run(tmp_path, story)


@pytest.mark.parametrize(
    "said",
    [
        OpenIdRegistration(userinfo_signed_response_alg="HS256"),
        replace(ENCRYPTED, encryption_keys=""),
    ],
)
def test_userinfo_is_refused_when_the_key_of_the_client_is_missing(
    tmp_path: Path, said: OpenIdRegistration
) -> None:
    async def story(it: Harness) -> None:
        answer = await _told(it, said)
        answer.refused(400, "invalid_client_metadata")
        assert b"ada@example.com" not in answer.body

    run(tmp_path, story)
