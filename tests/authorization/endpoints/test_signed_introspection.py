"""What a token is worth, as evidence: signed by the server, for one client (RFC 9701)."""

from pathlib import Path
from typing import cast

import pytest
from joserfc import jwt as jose
from joserfc.jwk import KeySet, KeySetSerialization

from tests.authorization.endpoints.world import CREDENTIAL, SECRET, Answer, Service, run
from valetkey.authorization.endpoints.client.introspection import SIGNED
from valetkey.authorization.model.register.client import RESOURCE_SERVER


async def ask(
    it: Service, token: str, accept: str, client_id: str = RESOURCE_SERVER, secret: str = CREDENTIAL
) -> Answer:
    """What a client hears that accepts this."""
    form = {"token": token, "client_id": client_id, "client_secret": secret}
    return await it.post("/oauth/introspect", form, accept=accept)


async def verified(it: Service, answer: Answer) -> jose.Token:
    """What another library reads, after it checked the signature."""
    document = (await it.call("GET", "/oauth/jwks")).json
    keys = KeySet.import_key_set(cast("KeySetSerialization", document))
    return jose.decode(answer.body.decode(), keys, algorithms=["ES256"])


@pytest.mark.parametrize("accept", [SIGNED, f"application/json;q=0.1, {SIGNED}"])
def test_who_accepts_a_jwt_gets_the_same_signed(tmp_path: Path, accept: str) -> None:
    async def story(it: Service) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        answer = await ask(it, token, accept)
        assert answer.status == 200
        assert answer.headers["content-type"] == SIGNED
        assert answer.headers["cache-control"] == "no-store"
        signed = await verified(it, answer)
        assert signed.header["typ"] == "token-introspection+jwt"
        assert signed.claims == {
            "iss": it.foundation.issuer,
            "aud": RESOURCE_SERVER,
            "iat": it.clock.now,
            "token_introspection": await it.introspect(token),
        }

    run(tmp_path, story)


def test_it_is_for_the_client_that_asked(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        answer = await ask(it, token, SIGNED, "web", SECRET)
        claims = (await verified(it, answer)).claims
        assert (claims["aud"], claims["token_introspection"]["client_id"]) == ("web", "web")

    run(tmp_path, story)


def test_also_no_is_signed_and_says_nothing_else(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        answer = await ask(it, "nonsense", SIGNED)
        claims = (await verified(it, answer)).claims
        assert claims["token_introspection"] == {"active": False}

    run(tmp_path, story)


def test_it_cannot_pass_for_an_access_token(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        await it.client("web")
        answer = await ask(it, (await it.tokens("web")).text("access_token"), SIGNED)
        assert await it.introspect(answer.body.decode()) == {"active": False}
        assert (await it.ask(answer.body.decode(), "account", "read")).status == 401

    run(tmp_path, story)


@pytest.mark.parametrize("accept", ["*/*", "application/*", "application/json", "application/jwt"])
def test_everybody_else_gets_json(tmp_path: Path, accept: str) -> None:
    async def story(it: Service) -> None:
        answer = await ask(it, "nonsense", accept)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json == {"active": False}

    run(tmp_path, story)


def test_a_refusal_is_never_signed(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        answer = await ask(it, "nonsense", SIGNED, secret="wrong")
        answer.refused(401, "invalid_client")

    run(tmp_path, story)
