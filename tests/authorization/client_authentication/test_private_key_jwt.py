"""Assertions: what each claim must say, and that each counts once."""

import asyncio
from pathlib import Path

import pytest

from tests.support.asgi import Answer
from tests.support.harness import Harness, run
from valetkey.authorization.background.maintenance import SWEEPS, sweep_all
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
KEY = SigningKey.generate(Algorithm.ES256)


def _assertion(it: Harness, jti: object = "one", **changes: object) -> str:
    claims: jwt.Claims = {
        "iss": "pk",
        "sub": "pk",
        "aud": it.foundation.issuer,
        "exp": it.clock.now + 60,
        "jti": jti,
        **changes,
    }
    return jwt.sign({k: v for k, v in claims.items() if v is not None}, KEY, typ="jwt")


async def _client(it: Harness) -> None:
    keys = KeySet.of(KEY.public).document().decode()
    await it.client("pk", key_set=keys, grant_types=("authorization_code", "client_credentials"))


async def _ask(it: Harness, assertion: str, **fields: str) -> Answer:
    form = {
        "grant_type": "client_credentials",
        "client_assertion_type": TYPE,
        "client_assertion": assertion,
        **fields,
    }
    return await it.post("/oauth/token", form)


def test_assertion_authenticates_its_client_with_or_without_client_id(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _client(it)
        assert (await _ask(it, _assertion(it))).status == 200
        assert (await _ask(it, _assertion(it, "two"), client_id="pk")).status == 200
        other = await _ask(it, _assertion(it, "three"), client_id="other")
        other.refused(401, "invalid_client")

    run(tmp_path, story)


def test_parallel_uses_of_one_assertion_succeed_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _client(it)
        assertion = _assertion(it)
        answers = await asyncio.gather(*(_ask(it, assertion) for _ in range(8)))
        assert sorted(answer.status for answer in answers) == [200] + [401] * 7

    run(tmp_path, story, database_url)


def test_used_assertion_stays_refused_until_it_expires(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _client(it)
        assertion = _assertion(it)
        assert (await _ask(it, assertion)).status == 200
        for _ in range(80):
            it.clock.forward(1)
            await sweep_all(it.foundation.store, it.clock.now, SWEEPS)
            (await _ask(it, assertion)).refused(401, "invalid_client")

    run(tmp_path, story)


@pytest.mark.parametrize(
    "assertion", ["", "x", "a.b", "a.b.c", "é.é.é", "a." + "b" * 70_000 + ".c"]
)
def test_malformed_assertion_is_refused(tmp_path: Path, assertion: str) -> None:
    async def story(it: Harness) -> None:
        await _client(it)
        assert (await _ask(it, assertion)).status in {401, 413}
        wrong = await _ask(it, _assertion(it), client_assertion_type="urn:other")
        wrong.refused(401, "invalid_client")

    run(tmp_path, story)


def test_an_assertion_of_a_client_that_has_a_secret_proves_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("pk", grant_types=("client_credentials",))
        (await _ask(it, _assertion(it))).refused(401, "invalid_client")
        both = await _ask(it, _assertion(it), client_secret="s" * 40, client_id="pk")
        both.refused(400, "invalid_request")

    run(tmp_path, story)
