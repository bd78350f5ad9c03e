"""The feed as a stream of events: news within a second, resume, signs of life, bounds."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.wait import CEILING, wait_until
from valetkey.authorization.endpoints import resource_server
from valetkey.authorization.endpoints.resource_server import (
    MOST_STREAMS,
    OVERLAP,
    PAGE,
    FeedPage,
    RevocationStreams,
)
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.testing.server import Servers

CREDENTIAL = "r" * 40
_PATIENCE = CEILING


@contextmanager
def serving(folder: Path, database: str) -> Generator[Servers]:
    """An authorization server whose resource server has a known credential."""
    defaults = Settings()
    settings = replace(
        defaults,
        authorization=replace(defaults.authorization, database=database),
        resource=replace(defaults.resource, credential_text=Secret(CREDENTIAL)),
    )
    with Servers(folder, settings=settings, with_resource=False) as running:
        yield running


@pytest.fixture
def servers(tmp_path: Path, sqlite_url: str) -> Iterator[Servers]:
    with serving(tmp_path, sqlite_url) as running:
        yield running


@contextmanager
def follow(
    servers: Servers, last_event_id: str = "", query: str = "", **more: str
) -> Generator[HTTPResponse]:
    """The answer to somebody who wants the stream, and goes away afterwards."""
    pair = b64encode(f"resource-server:{CREDENTIAL}".encode()).decode()
    headers = {"Accept": "text/event-stream", "Authorization": f"Basic {pair}", **more}
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
    connection = HTTPConnection(urlsplit(servers.auth_url).netloc, timeout=_PATIENCE)
    try:
        connection.request("GET", f"/oauth/revocations{query}", headers=headers)
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def status(servers: Servers, last_event_id: str = "", **more: str) -> int:
    """How the answer begins."""
    with follow(servers, last_event_id, **more) as answer:
        return answer.status


def event(stream: HTTPResponse) -> dict[str, str]:
    """The next event; a comment alone is one without data."""
    fields: dict[str, str] = {}
    while line := stream.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    return fields


def told(stream: HTTPResponse) -> list[str]:
    """The ids that the next event with data tells."""
    while "data" not in (fields := event(stream)):
        assert fields[""] == "alive"
    return [entry["id"] for entry in json.loads(fields["data"])["revocations"]]


def revoke(servers: Servers, *names: str) -> None:
    """As another process would."""
    now = servers.clock.now()

    def work(tx: Transaction) -> None:
        for name in names:
            tx.revocations.add(RevokedKind.TOKEN, name, now)

    servers.write(work)


def test_stream_reports_revocations_of_other_processes(tmp_path: Path, database_url: str) -> None:
    with serving(tmp_path, database_url) as servers, ExitStack() as stack:
        revoke(servers, "before")
        stream = stack.enter_context(follow(servers))
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["x-accel-buffering"] == "no"
        first = event(stream)
        assert first["event"] == "revocations"
        page = json.loads(first["data"])
        assert page["cursor"] == first["id"]
        assert [entry["id"] for entry in page["revocations"]] == ["before"]
        for name in ("one", "two"):
            revoke(servers, name)
            assert told(stream) == [name]


def test_the_stream_is_resumed_where_it_stopped(servers: Servers) -> None:
    revoke(servers, "old")
    with follow(servers) as stream:
        event(stream)
        servers.clock.forward(seconds(2 * OVERLAP))
        while (
            "data" in (alive := event(stream))
            or int(alive["id"]) < servers.clock.now() - OVERLAP - 1
        ):
            pass
    revoke(servers, "new")
    with follow(servers, alive["id"]) as stream:
        assert told(stream) == ["new"]
    with follow(servers, query=f"?after={alive['id']}") as stream:
        assert told(stream) == ["new"]
    with follow(servers, alive["id"], "?after=0") as stream:
        assert told(stream) == ["new"]


def test_idle_stream_sends_keep_alive_events(servers: Servers) -> None:
    with follow(servers) as stream:
        event(stream)
        for _ in range(2):
            assert event(stream).keys() == {"", "id"}


def test_feed_longer_than_a_page_is_streamed_completely_and_once(servers: Servers) -> None:
    names = [f"at_{number:05}" for number in range(2 * PAGE + 1)]
    revoke(servers, *names)
    with follow(servers) as stream:
        heard: list[str] = []
        while len(heard) < len(names):
            heard += told(stream)
        assert heard == names
        assert "data" not in event(stream)


def test_stream_requires_the_resource_server(servers: Servers) -> None:
    assert status(servers, Authorization="") == 401
    wrong = b64encode(b"resource-server:wrong").decode()
    assert status(servers, Authorization=f"Basic {wrong}") == 401


@pytest.mark.parametrize("cursor", ["x", "1.token", "-1", "9" * 30])
def test_invalid_cursor_is_refused_before_streaming(servers: Servers, cursor: str) -> None:
    with follow(servers, cursor) as answer:
        assert answer.status == 400
        assert json.loads(answer.read())["error"] == "invalid_request"


def test_stream_beyond_the_limit_is_refused_with_retry_after(servers: Servers) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_STREAMS):
            stream = stack.enter_context(follow(servers))
            assert stream.status == 200
            event(stream)
        with follow(servers) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "60")
        assert status(servers, Accept="application/json") == 200
    wait_until(lambda: status(servers) == 200)


def test_stream_is_closed_after_its_maximum_duration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource_server, "_EVERY", 0)
    looked: list[str] = []

    async def look(cursor: str) -> FeedPage:
        looked.append(cursor)
        return FeedPage(str(len(looked)), (), more=False, at=Instant(0))

    async def story() -> int:
        response = await RevocationStreams().open("", look)
        assert response.stream is not None
        return len([piece async for piece in response.stream])

    assert asyncio.run(story()) > 100
    assert len(looked) == 600


def test_stream_is_closed_when_the_database_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_server, "_EVERY", 0)

    async def look(cursor: str) -> FeedPage:
        if cursor:
            raise DatabaseUnavailable
        return FeedPage("1", (), more=False, at=Instant(0))

    async def story() -> int:
        response = await RevocationStreams().open("", look)
        assert response.stream is not None
        return len([piece async for piece in response.stream])

    assert asyncio.run(story()) == 1
