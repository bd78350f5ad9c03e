"""How often each request waits for PostgreSQL: what was saved once stays saved."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import Harness, run
from valetkey.authorization.claims.model import DeclaredClaim
from valetkey.authorization.claims.rules import declare_claim
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.postgres_connection import Channel
from valetkey.kernel.moment import Instant

_WAITS = ("result", "finish")
# Background work waits as well now and then: the best of a few turns is the request's own.
_TURNS = 12


def _declare(tx: Transaction, now: Instant) -> None:
    everywhere = (ClaimLocation.ID_TOKEN, ClaimLocation.USERINFO, ClaimLocation.ACCESS_TOKEN)
    for name, source in (("tenant", "constant:eu"), ("domain", "email_domain")):
        assert declare_claim(tx, DeclaredClaim(name, source, everywhere), "", now) is True
    teams = DeclaredClaim("teams", "groups", everywhere, clients=frozenset({"teams"}))
    assert declare_claim(tx, teams, "", now) is True


@pytest.mark.parametrize("declares", [False, True])
def test_requests_wait_for_the_database_no_more_often_than_necessary(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, declares: bool
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
        counts: list[int] = []
        for _ in range(_TURNS):
            argument = await prepare()
            counted.clear()
            await ask(argument)
            counts.append(counted.total())
        return min(counts)

    async def story(it: Harness) -> None:
        await it.client("web", access_token_format="jwt", scopes=("openid",))
        await it.client("svc", grant_types=("client_credentials",), access_token_format="reference")

        async def nothing() -> str:
            return ""

        async def member(name: str, client: str = "web") -> str:
            return (await it.tokens(client, "openid")).text(name)

        await it.client("teams", access_token_format="jwt", scopes=("openid",))
        if declares:
            await it.write(lambda tx: _declare(tx, it.clock.now))
        with_groups = {
            "code": await fewest(
                lambda code: it.exchange("teams", code), lambda: it.code("teams", "openid")
            ),
            "refresh": await fewest(
                lambda token: it.refresh("teams", token), lambda: member("refresh_token", "teams")
            ),
        }
        assert with_groups == {"code": 3, "refresh": 2}
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


def test_introspection_of_a_reference_token_needs_no_transaction(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []
    read = Store.read

    async def counting(store: Store, work: Callable[[Transaction], Any]) -> Any:
        reads.append(work)
        return await read(store, work)

    monkeypatch.setattr(Store, "read", counting)

    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",), access_token_format="reference")
        counts: list[int] = []
        for _ in range(_TURNS):
            token = await it.own_token("svc")
            reads.clear()
            assert (await it.introspect(token))["active"] is True
            counts.append(len(reads))
        assert min(counts) == 0

    run(tmp_path, story, postgres_url)
