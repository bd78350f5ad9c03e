"""What was revoked before it expired."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tests.sdk.issuer import SECRET, Clock, Issuer
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Answer, Credential, Fetcher
from valetkey.sdk.upstream.revocations import Kind, Page, Revocation, Revocations

FEED = "/oauth/revocations"
CREDENTIAL = Credential("resource-server", Secret(SECRET))


def _caller(at: int = 100, grant_id: str | None = "gr_1") -> Caller:
    return Caller("1001", "printer", Scope(), "at_1", grant_id, Instant(at), Instant(at + 60))


@asynccontextmanager
async def _followed() -> AsyncGenerator[tuple[Revocations, Issuer, list[Page]]]:
    kept: list[Page] = []

    async def keep(page: Page) -> bool:
        kept.append(page)
        return True

    async with Issuer(Clock(1_000)).running() as issuer, Fetcher() as fetch:
        yield Revocations(issuer.url + FEED, fetch, CREDENTIAL, keep=keep), issuer, kept


@pytest.mark.parametrize(("kind", "name"), [("grant", "gr_1"), ("token", "at_1")])
def test_only_a_revoked_grant_or_token_is_covered(kind: str, name: str) -> None:
    async def story() -> None:
        async with _followed() as (revocations, issuer, _):
            assert not revocations.covers(_caller())
            issuer.revoke(kind, "another")
            issuer.revoke(kind, name)
            assert await revocations.poll(issuer.clock.now())
            assert revocations.covers(_caller())
            other = Caller("1", "x", Scope(), "at_2", None, Instant(1), Instant(2))
            assert not revocations.covers(other)

    asyncio.run(story())


def test_tokens_issued_after_a_client_revocation_are_accepted() -> None:
    async def story() -> None:
        async with _followed() as (revocations, issuer, _):
            issuer.revoke("client", "printer")
            await revocations.poll(issuer.clock.now())
            assert revocations.covers(_caller(at=1_000, grant_id=None))
            assert not revocations.covers(_caller(at=1_001))

    asyncio.run(story())


def test_revocations_are_stored_at_once_and_the_cursor_once_a_minute() -> None:
    async def story() -> None:
        async with _followed() as (revocations, issuer, kept):
            for _ in range(50):
                await revocations.poll(issuer.clock.now())
                issuer.clock.at += 1
            assert len(kept) == 1
            issuer.revoke("grant", "gr_1")
            await revocations.poll(issuer.clock.now())
            assert [entry.id for entry in kept[-1].revocations] == ["gr_1"]
            assert len(kept) == 2

    asyncio.run(story())


def test_stored_revocations_are_used_after_a_restart() -> None:
    async def story() -> None:
        async with _followed() as (revocations, issuer, kept):
            issuer.revoke("grant", "gr_1")
            await revocations.poll(issuer.clock.now())
            async with Fetcher() as fetch:
                again = Revocations(issuer.url + FEED, fetch, CREDENTIAL, cached=kept[-1])
                assert again.covers(_caller())

    asyncio.run(story())


def test_known_revocations_are_kept_while_the_issuer_is_unreachable() -> None:
    async def story() -> None:
        async with _followed() as (revocations, issuer, _):
            issuer.revoke("grant", "gr_1")
            await revocations.poll(issuer.clock.now())
            heard = revocations.heard_at
            issuer.broken = True
            issuer.clock.at += 1
            assert not await revocations.poll(issuer.clock.now())
            await issuer.stop()
            assert not await revocations.poll(issuer.clock.now())
            assert revocations.covers(_caller())
            assert revocations.heard_at == heard

    asyncio.run(story())


def test_expired_revocation_is_forgotten() -> None:
    async def story() -> None:
        page = Page("", (Revocation(Kind.GRANT, "gr_1", Instant(1), Instant(2_000)),))
        async with Issuer(Clock(1_000)).running() as issuer, Fetcher() as fetch:
            revocations = Revocations(issuer.url + FEED, fetch, CREDENTIAL, cached=page)
            assert revocations.covers(_caller())
            issuer.clock.at = 2_000
            await revocations.poll(issuer.clock.now())
            assert not revocations.covers(_caller())

    asyncio.run(story())


def test_revocations_that_could_not_be_stored_are_stored_with_the_next() -> None:
    async def story() -> None:
        pages: list[Page] = []

        async def keep(page: Page) -> bool:
            pages.append(page)
            return len(pages) > 2

        async with Issuer(Clock(1_000)).running() as issuer, Fetcher() as fetch:
            revocations = Revocations(issuer.url + FEED, fetch, CREDENTIAL, keep=keep)
            for name in ("gr_1", "gr_2"):
                issuer.revoke("grant", name)
                await revocations.poll(issuer.clock.now())
            assert [entry.id for entry in pages[-1].revocations] == ["gr_1", "gr_2"]
            await revocations.poll(issuer.clock.now())
            assert len(pages) == 3

    asyncio.run(story())


def test_cancelled_follower_still_stores_received_revocations() -> None:
    async def story() -> None:
        pages: list[Page] = []
        begun = asyncio.Event()

        async def keep(page: Page) -> bool:
            pages.append(page)
            begun.set()
            if len(pages) == 1:
                await asyncio.Event().wait()
            return True

        async with Issuer(Clock(1_000)).running() as issuer, Fetcher() as fetch:
            revocations = Revocations(issuer.url + FEED, fetch, CREDENTIAL, keep=keep)
            issuer.revoke("grant", "gr_1")
            following = asyncio.create_task(revocations.follow(issuer.clock.now))
            async with asyncio.timeout(60):
                await begun.wait()
            following.cancel()
            await asyncio.wait([following])
            assert [[entry.id for entry in page.revocations] for page in pages] == [["gr_1"]] * 2

    asyncio.run(story())


class _Feed:
    """Answers one after the other, as the issuer would."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def get(self, url: str, credential: Credential | None = None) -> Answer:
        self.asked.append(url.partition("after=")[2])
        return self.answers.pop(0)


def test_feed_is_read_from_its_start_after_its_cursor_is_refused() -> None:
    async def story() -> None:
        feed = _Feed(Answer(400, b"{}"), Answer(200, b'{"cursor":"7","revocations":[]}'))
        page = Page("99", ())
        revocations = Revocations("u", cast("Fetcher", feed), CREDENTIAL, cached=page)
        assert not await revocations.poll(Instant(1))
        assert await revocations.poll(Instant(2))
        assert feed.asked == ["99", ""]

    asyncio.run(story())


@pytest.mark.parametrize("body", [b"", b"[]", b'{"cursor":1}', b"\xff", b'{"cursor":"1"}'])
def test_malformed_feed_response_is_not_accepted(body: bytes) -> None:
    feed = _Feed(Answer(200, body))
    revocations = Revocations("u", cast("Fetcher", feed), CREDENTIAL)
    assert not asyncio.run(revocations.poll(Instant(1)))


def test_long_feed_is_read_to_its_end_in_one_poll() -> None:
    def page(number: int, *, last: bool) -> Answer:
        entry = f'{{"kind":"token","id":"at_{number}","revoked_at":1,"expires_at":9}}'
        entries = "" if last else entry
        return Answer(200, f'{{"cursor":"{number}","revocations":[{entries}]}}'.encode())

    feed = _Feed(page(1, last=False), page(2, last=False), page(3, last=True))
    revocations = Revocations("u", cast("Fetcher", feed), CREDENTIAL)
    assert asyncio.run(revocations.poll(Instant(1)))
    assert feed.asked == ["", "1", "2"]
    assert revocations.covers(Caller("s", "c", Scope(), "at_2", None, Instant(1), Instant(9)))
