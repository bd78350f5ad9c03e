"""Signed answers about tokens (RFC 9701): for who asks for them, or is registered for them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.asgi import Answer
from tests.support.harness import SECRET, Harness, harness, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.strict_json import read_object

SIGNED = "application/token-introspection+jwt"


async def _asked(it: Harness, client_id: str, token: str, accept: str = "") -> Answer:
    form = {"client_id": client_id, "client_secret": SECRET, "token": token}
    return await it.post("/oauth/introspect", form, accept=accept)


def _opened(it: Harness, answer: Answer) -> tuple[str, Mapping[str, Any]]:
    """The algorithm and the claims of an answer that is signed by the server."""
    assert answer.headers["content-type"] == SIGNED
    parts = jwt.parse(answer.body.decode(), ("token-introspection+jwt",))
    key = it.foundation.keys.published(it.clock.now).find(parts.header.kid)
    assert key is not None
    assert key.verifies(Algorithm(parts.header.alg), parts.signature, parts.signed)
    claims = read_object(parts.payload)
    assert claims is not None
    return parts.header.alg, claims


def test_signed_introspection_on_request_cannot_pass_for_a_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        plain = (await _asked(it, "web", token)).json
        await it.foundation.keys.refresh(it.clock.now)
        algorithm, claims = _opened(it, await _asked(it, "web", token, SIGNED))
        assert algorithm == "ES256"
        assert claims == {
            "iss": it.foundation.issuer,
            "aud": "web",
            "iat": it.clock.now,
            "token_introspection": plain,
        }
        _, dead = _opened(it, await _asked(it, "web", "x", SIGNED))
        assert dead["token_introspection"] == {"active": False}

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("accept", "registered", "signed"),
    [
        ("", False, False),
        ("*/*", False, False),
        ("application/json", False, False),
        (SIGNED, False, True),
        (SIGNED.upper(), False, True),
        (f"application/json, {SIGNED};q=0.5", False, True),
        (f"{SIGNED};q=0", False, False),
        ("application/token-introspection+jwt2", False, False),
        ("", True, True),
        ("*/*", True, True),
        ("application/json", True, False),
        ("application/json;q=0", True, True),
        (f"{SIGNED};q=0", True, False),
    ],
)
def test_accept_header_takes_precedence_over_the_registered_format(
    tmp_path: Path, accept: str, registered: bool, signed: bool
) -> None:
    async def story(it: Harness) -> None:
        algorithm = "ES256" if registered else ""
        await it.client(
            "web", openid=OpenIdRegistration(introspection_signed_response_alg=algorithm)
        )
        answer = await _asked(it, "web", "x", accept)
        assert answer.headers["content-type"] == (SIGNED if signed else "application/json")

    run(tmp_path, story)


def test_signed_introspection_uses_the_registered_algorithm(tmp_path: Path) -> None:
    async def story() -> None:
        both = (Algorithm.ES256, Algorithm.EDDSA)
        async with harness(tmp_path, algorithms=both) as it:
            openid = OpenIdRegistration(introspection_signed_response_alg="EdDSA")
            await it.client("web", openid=openid)
            await it.foundation.keys.refresh(it.clock.now)
            for accept in ("", SIGNED):
                algorithm, claims = _opened(it, await _asked(it, "web", "x", accept))
                assert (algorithm, claims["aud"]) == ("EdDSA", "web")

    asyncio.run(story())


def test_metadata_lists_the_introspection_signing_algorithms(tmp_path: Path) -> None:
    async def story() -> None:
        both = (Algorithm.ES256, Algorithm.EDDSA)
        async with harness(tmp_path, algorithms=both) as it:
            metadata = (await it.call("GET", "/.well-known/oauth-authorization-server")).json
            assert metadata["introspection_signing_alg_values_supported"] == ["ES256", "EdDSA"]

    asyncio.run(story())
