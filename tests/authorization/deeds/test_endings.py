"""Ending much: it has ended when the first transaction commits, however many rows follow."""

from dataclasses import replace
from pathlib import Path

from tests.authorization.endpoints.world import ADA, Service, run
from valetkey.authorization.deeds.endings import BATCH, work_off
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.storage.transaction import Transaction

_MANY = 20_000
_AT_ONCE = 5_000


async def _fill(it: Service, grant: Grant) -> None:
    for first in range(0, _MANY, _AT_ONCE):

        def work(tx: Transaction, first: int = first) -> None:
            for number in range(first, first + _AT_ONCE):
                tx.grants.issue(replace(grant, id=f"gr_{number}"))

        await it.write(work)


async def _revoked(it: Service) -> int:
    row = await it.read(
        lambda tx: tx.db.row("SELECT COUNT(*) FROM grants WHERE revoked_at IS NOT NULL")
    )
    assert row is not None
    return int(row[0])


async def _live(it: Service) -> int:
    return (await it.read(lambda tx: tx.grants.reach("web", it.clock.now))).authorizations


async def _finish(it: Service) -> list[int]:
    """Work off what is left; how many rows each transaction wrote."""
    wrote: list[int] = []
    while ended := await it.write(lambda tx: work_off(tx, it.clock.now)):
        wrote.append(ended)
    return wrote


def test_twenty_thousand_grants_of_a_client_end_at_once_in_batches(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Service) -> None:
        client = await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now))
        code = await it.code("web")
        await _fill(it, grant)
        assert await _live(it) == _MANY + 1
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        assert await _revoked(it) == BATCH
        assert await _live(it) == 0
        off = await it.read(lambda tx: tx.clients.find("web"))
        assert off is not None
        assert await it.write(lambda tx: registrar.enable(tx, off, it.clock.now))
        assert await _live(it) == 0
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.exchange("web", code)).status == 400
        it.clock.forward(1)
        fresh = (await it.tokens("web")).text("access_token")
        # The token endpoint answers between any two of the batches, each of which is small.
        wrote = await _finish(it)
        assert await _revoked(it) == _MANY + 1
        assert max(wrote) <= BATCH
        assert await _live(it) == 1
        assert (await it.introspect(fresh))["active"] is True

    run(tmp_path, story, database_url)


def test_everything_of_a_user_ends_at_once_in_batches_and_the_feed_says_so(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Service) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now))
        code = await it.code("web")
        await _fill(it, grant)
        accounts = it.foundation.accounts()
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert await it.write(lambda tx: accounts.disable(tx, user, it.clock.now))
        assert await _revoked(it) == BATCH
        feed = await it.read(lambda tx: tx.revocations.page(it.clock.now, "", "", 1_000))
        assert ("user", str(ADA)) in {(each.kind, each.id) for each in feed}
        off = await it.read(lambda tx: tx.users.find(ADA))
        assert off is not None
        assert await it.write(lambda tx: accounts.enable(tx, off, it.clock.now))
        assert not await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now))
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.exchange("web", code)).status == 400
        wrote = await _finish(it)
        assert await _revoked(it) == _MANY + 1
        assert max(wrote) <= BATCH

    run(tmp_path, story, database_url)
