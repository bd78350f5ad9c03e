"""POST /oauth/register: who may, how often, and that alike ones do not pile up."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.registration.registering import PLAIN, Registry, run
from valetkey.authorization.actions.registrations import LEFT_ALONE
from valetkey.kernel.moment import Lifetime


@pytest.mark.parametrize("mode", ["off", "token"])
def test_registration_requires_a_token_unless_open(tmp_path: Path, mode: str) -> None:
    async def story(it: Registry) -> None:
        for token in ("", "vk_in_x", "x" * 60):
            answer = await it.register(PLAIN, token)
            answer.refused(401, "invalid_token")
            assert "www-authenticate" in answer.headers
        # Strangers are not told what is wrong with their metadata.
        (await it.raw(b"{")).refused(401, "invalid_token")
        invited = await it.invitation()
        expected = 401 if mode == "off" else 201
        assert (await it.register(PLAIN, invited)).status == expected

    run(tmp_path, story, mode=mode)


def test_only_success_uses_up_an_invitation(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        token = await it.invitation(uses=2)
        (await it.register({}, token)).refused(400, "invalid_redirect_uri")
        assert (await it.register(PLAIN, token)).status == 201
        assert (await it.register(PLAIN, token)).status == 201
        (await it.register(PLAIN, token)).refused(401, "invalid_token")
        late = await it.invitation()
        it.service.clock.forward(86_400)
        (await it.register(PLAIN, late)).refused(401, "invalid_token")

    run(tmp_path, story, database_url, mode="token")


def test_parallel_uses_of_an_invitation_register_one_client(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Registry) -> None:
        token = await it.invitation()
        answers = await asyncio.gather(*(it.register(PLAIN, token) for _ in range(64)))
        assert sorted(answer.status for answer in answers) == [201] + [401] * 63

    run(tmp_path, story, database_url, mode="token")


def test_registrations_per_address_are_limited(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for _ in range(3):
            await it.register({})
        answer = await it.register()
        answer.refused(429, "slow_down")
        assert int(answer.headers["retry-after"]) > 0

    run(tmp_path, story, registrations_per_hour=3)


def test_new_registrations_are_not_evicted_by_later_ones(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        records = [await it.registered() for _ in range(30)]
        it.service.clock.forward(Lifetime(LEFT_ALONE - 1))
        await it.registered()
        assert {(await it.manage(record)).status for record in records} == {200}
        it.service.clock.forward(1)
        # A few at a time, so that no transaction is long.
        await it.registered()
        statuses = [(await it.manage(record)).status for record in records]
        assert (statuses.count(401), statuses.count(200)) == (20, 10)
        await it.registered()
        statuses = [(await it.manage(record)).status for record in records]
        assert (statuses.count(401), statuses.count(200)) == (23, 7)

    run(tmp_path, story)


def test_unused_identical_registrations_are_replaced(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        first = await it.registered()
        for _ in range(9):
            it.service.clock.forward(1)
            await it.registered()
        await it.registered(client_name="Other")
        assert (await it.manage(first)).status == 200
        it.service.clock.forward(LEFT_ALONE)
        answers = await asyncio.gather(*(it.register() for _ in range(8)))
        assert {answer.status for answer in answers} == {201}
        (await it.manage(first)).refused(401, "invalid_token")
        rows = await it.service.read(
            lambda tx: tx.db.rows("SELECT client_id FROM registrations WHERE removed_at IS NULL")
        )
        assert len(rows) == 11
        removals = [event for event in await it.service.event_records() if "removed" in event.name]
        assert len(removals) == 8
        assert {'"because":"replaced"' in event.data.replace(" ", "") for event in removals} == {
            True
        }

    run(tmp_path, story, database_url)
