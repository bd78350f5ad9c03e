"""How often each request waits for PostgreSQL: what was saved once stays saved."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.endpoints.world import Service, run
from valetkey.database.postgres_channel import Channel

_WAITS = ("result", "finish")
# Background work waits as well now and then: the best of a few turns is the request's own.
_TURNS = 5


def test_requests_wait_for_the_database_no_more_often_than_necessary(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counter[str]()

    def count(name: str) -> None:
        method = getattr(Channel, name)

        def counting(channel: Channel) -> Any:
            counted[name] += 1
            return method(channel)

        monkeypatch.setattr(Channel, name, counting)

    for name in _WAITS:
        count(name)

    async def fewest(
        ask: Callable[[str], Awaitable[object]], prepare: Callable[[], Awaitable[str]]
    ) -> int:
        found: list[int] = []
        for _ in range(_TURNS):
            given = await prepare()
            counted.clear()
            await ask(given)
            found.append(counted.total())
        return min(found)

    async def story(it: Service) -> None:
        await it.client("web", access_token_format="jwt", scopes=("openid",))
        await it.client("svc", grant_types=("client_credentials",), access_token_format="reference")

        async def nothing() -> str:
            return ""

        async def member(name: str) -> str:
            return (await it.tokens("web", "openid")).text(name)

        waits = {
            "client credentials": await fewest(lambda _: it.own_token("svc"), nothing),
            "code": await fewest(
                lambda code: it.exchange("web", code), lambda: it.code("web", "openid")
            ),
            "refresh": await fewest(
                lambda token: it.refresh("web", token), lambda: member("refresh_token")
            ),
            "introspection": await fewest(it.introspect, lambda: it.own_token("svc")),
            "userinfo": await fewest(
                lambda token: it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}"),
                lambda: member("access_token"),
            ),
        }
        assert waits == {
            "client credentials": 1,
            "code": 3,
            "refresh": 2,
            "introspection": 1,
            "userinfo": 1,
        }

    run(tmp_path, story, postgres_url)
