"""From text to caller, without a network where none is needed."""

import asyncio
from typing import cast

import pytest

from tests.sdk.issuer import API, Clock, Issuer
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Fetcher
from valetkey.sdk.upstream.discovery import Issuer as Trusted
from valetkey.sdk.upstream.discovery import KeySource
from valetkey.sdk.verify import NO_KEYS, Verifier


def test_known_keys_need_no_network() -> None:
    async def story() -> None:
        issuer = Issuer(Clock(), port=1)
        async with Fetcher() as fetch:
            keys = KeySource("http://127.0.0.1:1/", fetch, cached=issuer.keys.document())
            verifier = Verifier(issuer=Trusted.valetkey(issuer.url), audience=API, keys=keys)
            token = issuer.token("read")
            first = await verifier.verify(token, issuer.clock.now())
            assert isinstance(first, Caller)
            assert await verifier.verify(token, issuer.clock.now()) is first
            issuer.clock.at = first.expires_at
            ended = await verifier.verify(token, issuer.clock.now())
            assert cast("Refusal", ended).code is ErrorCode.INVALID_TOKEN

    asyncio.run(story())


def test_verification_without_keys_returns_no_keys() -> None:
    async def story() -> None:
        issuer = Issuer(Clock(), port=1)
        async with Fetcher() as fetch:
            keys = KeySource("http://127.0.0.1:1/", fetch)
            verifier = Verifier(issuer=Trusted.valetkey(issuer.url), audience=API, keys=keys)
            for _ in range(3):
                assert await verifier.verify(issuer.token("read"), issuer.clock.now()) == NO_KEYS

    asyncio.run(story())


def test_malformed_tokens_are_refused_without_an_exception() -> None:
    async def story() -> None:
        issuer = Issuer(Clock(), port=1)
        async with Fetcher() as fetch:
            keys = KeySource("http://127.0.0.1:1/", fetch, cached=issuer.keys.document())
            verifier = Verifier(issuer=Trusted.valetkey(issuer.url), audience=API, keys=keys)
            for text in ("", ".", "..", "a.b.c", "vk_at_", "\x00", "\ud800", "e30.e30.e30", "é"):
                verdict = await verifier.verify(text, issuer.clock.now())
                assert cast("Refusal", verdict).code is ErrorCode.INVALID_TOKEN

    asyncio.run(story())


@pytest.mark.parametrize("algorithm", Algorithm)
def test_every_algorithm_that_an_api_may_choose_is_verified(algorithm: Algorithm) -> None:
    async def story() -> None:
        key = SigningKey.generate(algorithm)
        other = SigningKey.generate()
        issuer = Issuer(Clock(), key=key, port=1)
        document = KeySet.of(key.public, other.public).document()
        async with Fetcher() as fetch:
            keys = KeySource("http://127.0.0.1:1/", fetch, cached=document)
            verifier = Verifier(issuer=Trusted.valetkey(issuer.url), audience=API, keys=keys)
            draft = replace(issuer.draft("read"), claims={"roles": ["editor"], "team": "blue"})
            caller = await verifier.verify(draft.sign(key), issuer.clock.now())
            assert isinstance(caller, Caller)
            assert caller.roles == ("editor",)
            assert caller.claims["team"] == "blue"
            elsewhere = replace(draft, audience=f"{API}/other").sign(key)
            refused = await verifier.verify(elsewhere, issuer.clock.now())
            assert cast("Refusal", refused).code is ErrorCode.INVALID_TOKEN

    asyncio.run(story())
