"""ID tokens that come back: ours, for this client, however old."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.support.harness import NOON, Harness
from tests.support.visitors import ISSUER, WEB, run
from valetkey.authorization.model.client import ClientSecret, OpenIdRegistration
from valetkey.authorization.tokens.client_keys import secret_context
from valetkey.authorization.tokens.id_token import Hint
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import days, later, seconds
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, Secret

CLAIMS: Mapping[str, object] = {
    "iss": ISSUER,
    "sub": "1001",
    "aud": "web1",
    "iat": NOON,
    "exp": NOON + 300,
    "sid": "se_1",
}
SHARED = Secret("s" * 43)


async def refused(it: Harness, text: str) -> str:
    with pytest.raises(Refused) as caught:
        await it.server.hints.read(text, WEB, it.clock.now)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST
    return caught.value.refusal.check


def test_hint_identifies_user_and_session_at_any_age(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        ours = partial(jwt.sign, key=it.authorize.minter.keys.current(NOON))
        text = ours(CLAIMS, typ="JWT")
        for age in (seconds(0), seconds(299), seconds(300), days(20)):
            hint = await it.server.hints.read(text, WEB, later(NOON, age))
            assert hint == Hint("1001", "se_1")
        without = {name: value for name, value in CLAIMS.items() if name != "sid"}
        hint = await it.server.hints.read(ours(without, typ="JWT"), WEB, NOON)
        assert hint == Hint("1001", "")

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"iss": "https://evil.test"}, "id_token_hint.iss"),
        ({"aud": "web2"}, "id_token_hint.aud"),
        ({"aud": ["web2"]}, "id_token_hint.aud"),
        ({"sub": ""}, "id_token_hint.sub"),
        ({"sub": 1001}, "id_token_hint.sub"),
        ({"sid": 7}, "id_token_hint.sub"),
        ({"exp": "soon"}, "id_token_hint.exp"),
        ({"iat": NOON + 3_600}, "id_token_hint.iat"),
    ],
    ids=str,
)
def test_hint_with_wrong_claims_is_refused(
    tmp_path: Path, changed: dict[str, object], check: str
) -> None:
    async def story(it: Harness) -> None:
        key = it.authorize.minter.keys.current(NOON)
        assert await refused(it, jwt.sign({**CLAIMS, **changed}, key, typ="JWT")) == check

    run(tmp_path, story)


def test_token_signed_by_another_key_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        stranger = SigningKey.generate(Algorithm.ES256)
        assert await refused(it, jwt.sign(CLAIMS, stranger, typ="JWT")) == "id_token_hint.key"
        for typ in ("at+jwt", "logout+jwt", "token-introspection+jwt"):
            text = jwt.sign(CLAIMS, it.authorize.minter.keys.current(NOON), typ=typ)
            assert await refused(it, text) == "id_token_hint.typ"
        for text in ("", ".", "a.b.c", "x" * 20_000):
            assert (await refused(it, text)).startswith("id_token_hint.")

    run(tmp_path, story)


def test_hint_signed_with_a_shared_secret_is_valid_only_for_its_client(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        sealed = it.server.keyring.sealer.seal(
            SHARED.reveal().encode(), secret_context("cs_1"), it.server.random
        )
        secret = ClientSecret("cs_1", Fingerprint("print"), None, sealed)
        shared = OpenIdRegistration(id_token_signed_response_alg=mac.ALGORITHM)
        signing = replace(WEB, secrets=(secret,), openid=shared)
        text = mac.sign_shared(CLAIMS, SHARED)
        assert await it.server.hints.read(text, signing, later(NOON, days(1))) == Hint(
            "1001", "se_1"
        )
        assert await refused(it, text) == "id_token_hint.signature"
        # A client that once got them by our key may still hold one.
        old = jwt.sign(CLAIMS, it.authorize.minter.keys.current(NOON), typ="JWT")
        assert await it.server.hints.read(old, signing, NOON) == Hint("1001", "se_1")

    run(tmp_path, story)
