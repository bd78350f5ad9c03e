"""Logout tokens are believed with each signature that an app can register for its ID tokens."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.sdk import Credential, Issuer, LoggedOut, LogoutTokens
from valetkey.sdk.fetch import Answer
from valetkey.sdk.verify import EVENT

NOON = Instant(1_800_000_000)
URL = "https://auth.example"


@dataclass(frozen=True)
class OneKey:
    """An issuer that publishes one key."""

    key: SigningKey

    async def get(self, url: str, credential: Credential | None = None) -> Answer:
        assert url == f"{URL}/oauth/jwks"
        return Answer(200, KeySet.of(self.key.public).document())

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str],
        credential: Credential | None = None,
        *,
        accept: str = "",
    ) -> Answer:
        raise AssertionError(url)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("algorithm", Algorithm)
def test_logout_token_is_accepted_with_every_registrable_algorithm(algorithm: Algorithm) -> None:
    key = SigningKey.generate(algorithm)
    claims = {
        "iss": URL,
        "sub": "1001",
        "aud": "shop",
        "iat": NOON,
        "exp": NOON + 120,
        "jti": "lt_1",
        "sid": "se_1",
        "events": {EVENT: {}},
    }

    async def read() -> LoggedOut:
        library = LogoutTokens(Issuer.valetkey(URL), client_id="shop", http=OneKey(key))
        return await library.read(jwt.sign(claims, key, typ="logout+jwt"), NOON)

    assert asyncio.run(read()) == LoggedOut("1001", "se_1")
