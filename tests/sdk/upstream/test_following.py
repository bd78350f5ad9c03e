"""A follower and the real feed, with a network between them that misbehaves."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.sdk.upstream.between import Between, between
from tests.support.wait import CEILING, until
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Credential, Fetcher
from valetkey.sdk.upstream import revocations as module
from valetkey.sdk.upstream.revocations import Page, Revocations
from valetkey.testing.server import Servers

CREDENTIAL = Credential("resource-server", Secret("r" * 40))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A real authorization server."""
    settings = replace(
        Settings(), resource=replace(ResourceSettings(), credential_text=CREDENTIAL.client_secret)
    )
    folder: Path = tmp_path_factory.mktemp("feed")
    with Servers(folder, settings=settings, with_resource=False) as running:
        yield running


@asynccontextmanager
async def followed(
    servers: Servers, kept: list[Page] | None = None, *, hangs: bool = False
) -> AsyncGenerator[tuple[Revocations, Between]]:
    """One who follows, through something between."""

    async def keep(page: Page) -> bool:
        if kept is not None:
            kept.append(page)
        return True

    home = urlsplit(servers.auth_url)
    assert home.hostname is not None
    assert home.port is not None
    async with between(home.hostname, home.port) as it, Fetcher() as fetch:
        it.hangs = hangs
        revocations = Revocations(f"{it.address}/oauth/revocations", fetch, CREDENTIAL, keep=keep)
        task = asyncio.create_task(revocations.follow(servers.clock.now))
        try:
            await _until(lambda: revocations.heard_at > 0)
            yield revocations, it
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def felt(servers: Servers, revocations: Revocations, name: str) -> None:
    """Revoke a token and wait until the follower knows of it."""
    now = servers.clock.now()
    await asyncio.to_thread(
        servers.write, lambda tx: tx.revocations.add(RevokedKind.TOKEN, name, now)
    )
    caller = Caller("1", "printer", Scope(), name, None, now, Instant(now + 60))
    await _until(lambda: revocations.covers(caller))


def test_revocations_arrive_over_the_stream_without_polling(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_FOR", CEILING)

    async def story() -> None:
        async with followed(servers) as (revocations, it):
            opened = set(it.streams)
            assert len(opened) == 1
            await felt(servers, revocations, "at_stream")
            # The issuer gives a sign of life each second: more often than a follower polls.
            before = it.signs
            await _until(lambda: it.signs >= before + 3)
            assert it.streams == opened
            assert it.connections == 1, "it polls too"

    asyncio.run(story())


def test_revocations_arrive_soon_after_the_stream_is_cut(servers: Servers) -> None:
    async def story() -> None:
        async with followed(servers) as (revocations, it):
            for name in ("at_cut_1", "at_cut_2"):
                it.cut()
                await felt(servers, revocations, name)
            await _until(lambda: bool(it.streams))

    asyncio.run(story())


def test_revocations_arrive_while_the_stream_hangs(servers: Servers) -> None:
    async def story() -> None:
        async with followed(servers) as (revocations, it):
            assert it.streams
            it.hangs = True
            for name in ("at_hang_1", "at_hang_2", "at_hang_3"):
                await felt(servers, revocations, name)
            it.hangs = False
            await felt(servers, revocations, "at_hang_4")

    asyncio.run(story())


def test_revocations_are_polled_where_no_stream_gets_through(servers: Servers) -> None:
    async def story() -> None:
        async with followed(servers, hangs=True) as (revocations, _):
            for name in ("at_never_1", "at_never_2", "at_never_3"):
                await felt(servers, revocations, name)

    asyncio.run(story())


def test_revocations_received_over_the_stream_are_kept_with_their_cursor(servers: Servers) -> None:
    async def story() -> None:
        kept: list[Page] = []
        async with followed(servers, kept) as (revocations, _):
            await felt(servers, revocations, "at_kept")
            assert "at_kept" in [entry.id for page in kept for entry in page.revocations]
            assert kept[-1].cursor
            async with Fetcher() as fetch:
                again = Revocations("http://127.0.0.1:1/", fetch, CREDENTIAL, cached=kept[-1])
                now = servers.clock.now()
                caller = Caller("1", "printer", Scope(), "at_kept", None, now, Instant(now + 9))
                assert again.covers(caller)

    asyncio.run(story())


async def _until(true: Callable[[], bool]) -> None:
    await until(true, "it never came")
