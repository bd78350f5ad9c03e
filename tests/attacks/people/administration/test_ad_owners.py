"""Attacks on the last owner, and on what two who administer change at once."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller, give_role, person
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused


async def _leaves(it: Harness, uid: Uid) -> str:
    """What came of it that this person plans the end of their account."""

    def work(tx: Transaction) -> bool:
        user = tx.users.find_to_change(uid)
        assert user is not None
        return it.foundation.removal.plan(tx, user, it.clock.now) is not None

    try:
        return "planned" if await it.write(work) else "hindered"
    except Refused as refused:
        return refused.refusal.check


def test_ad_01_two_last_owners_cannot_both_schedule_their_removal(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        bob = await person(it, "bob", Role.OWNER, 1002)
        await give_role(it, ADA, Role.OWNER)
        outcomes = await asyncio.gather(_leaves(it, ADA), _leaves(it, bob))
        assert sorted(outcomes) == ["admin.last_owner", "planned"]

    run(tmp_path, story, database_url)


def test_ad_03_parallel_changes_of_the_brand_succeed_once(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        seen = (await owner.call("GET", "/brand")).headers["etag"]
        answers = await asyncio.gather(
            *(
                owner.call("PATCH", "/brand", {"name": f"Acme {n}"}, headers={"if-match": seen})
                for n in range(16)
            )
        )
        assert sorted(answer.status for answer in answers) == [200, *[412] * 15]

    run(tmp_path, story, database_url)
