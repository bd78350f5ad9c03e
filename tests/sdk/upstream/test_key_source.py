"""The issuer's keys: rarely fetched, never lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.sdk.issuer import Clock, Issuer
from tests.support.wait import until
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.sdk.fetch import Fetcher
from valetkey.sdk.upstream.discovery import FRESH, REST, KeySource

JWKS = "/oauth/jwks"


@asynccontextmanager
async def _source(
    cached_document: bytes = b"",
) -> AsyncGenerator[tuple[KeySource, Issuer, list[bytes]]]:
    kept: list[bytes] = []

    async def keep(document: bytes) -> None:
        kept.append(document)

    async with Issuer(Clock()).running() as issuer, Fetcher() as fetch:
        yield KeySource(issuer.url + JWKS, fetch, cached=cached_document, keep=keep), issuer, kept


def test_concurrent_fetches_share_one_request() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, kept):
            now = issuer.clock.now()
            news = await asyncio.gather(*(source.fetch_missing(now) for _ in range(50)))
            assert all(news)
            assert issuer.asked[JWKS] == 1
            assert kept == [issuer.keys.document()]
            assert source.keys is not None
            assert source.keys.find(issuer.key.kid) is not None

    asyncio.run(story())


def test_unknown_keys_cause_at_most_one_fetch_in_ten_seconds() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, _):
            for _ in range(30):
                await source.fetch_missing(issuer.clock.now())
                issuer.clock.at += 1
            # The first answer was news, and so the second question comes early.
            assert issuer.asked[JWKS] == 1 + 30 // REST

    asyncio.run(story())


def test_repeated_key_rotation_is_followed() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, _):
            for _ in range(5):
                issuer.key = SigningKey.generate()
                issuer.keys = KeySet.of(issuer.key.public, *issuer.keys)
                assert await source.fetch_missing(issuer.clock.now())
                assert source.keys is not None
                assert source.keys.find(issuer.key.kid) is not None
                issuer.clock.at += 1

    asyncio.run(story())


def test_key_rotated_within_a_second_of_the_last_fetch_is_found() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, _):
            # The clock stands still: both responses come within one second.
            assert await source.fetch_missing(issuer.clock.now())
            issuer.key = SigningKey.generate()
            issuer.keys = KeySet.of(issuer.key.public, *issuer.keys)
            news = await asyncio.gather(
                *(source.fetch_missing(issuer.clock.now()) for _ in range(50))
            )
            assert all(news)
            assert issuer.asked[JWKS] == 2

    asyncio.run(story())


def test_unchanged_document_keeps_the_same_key_set() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, kept):
            await source.fetch_missing(issuer.clock.now())
            first = source.keys
            issuer.clock.at += REST
            assert not await source.fetch_missing(issuer.clock.now())
            assert source.keys is first
            assert len(kept) == 1

    asyncio.run(story())


def test_known_keys_are_kept_while_the_issuer_is_unreachable_or_empty() -> None:
    async def story() -> None:
        document = KeySet.of(SigningKey.generate().public).document()
        async with _source(document) as (source, issuer, kept):
            keys = source.keys
            assert keys is not None
            issuer.broken = True
            assert not await source.fetch_missing(issuer.clock.now())
            issuer.broken, issuer.keys = False, KeySet()
            issuer.clock.at += REST
            assert not await source.fetch_missing(issuer.clock.now())
            await issuer.stop()
            issuer.clock.at += REST
            assert not await source.fetch_missing(issuer.clock.now())
            assert source.keys is keys
            assert not source.is_sure()
            assert kept == []

    asyncio.run(story())


def test_follower_retries_quickly_until_the_issuer_starts() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, _):
            issuer.broken = True
            task = asyncio.create_task(source.follow(issuer.clock.now))
            # The clock of the source stands still: no rest of a whole second could end.
            await until(lambda: issuer.asked[JWKS] > 1)
            issuer.broken = False
            await until(lambda: source.keys is not None)
            task.cancel()

    asyncio.run(story())


def test_a_withdrawn_key_is_forgotten_within_five_minutes() -> None:
    async def story() -> None:
        async with _source() as (source, issuer, _):
            task = asyncio.create_task(source.follow(issuer.clock.now))
            await until(lambda: source.keys is not None)
            old = issuer.key
            issuer.key = SigningKey.generate()
            issuer.keys = KeySet.of(issuer.key.public)
            issuer.clock.at += FRESH
            await until(lambda: source.keys is None or source.keys.find(old.kid) is None)
            task.cancel()

    asyncio.run(story())


def test_cached_document_that_is_no_key_set_is_ignored() -> None:
    async def story() -> None:
        async with _source(b'{"keys":"x"}') as (source, _, __):
            assert source.keys is None
            assert await source.fetch_missing(Instant(5))

    asyncio.run(story())
