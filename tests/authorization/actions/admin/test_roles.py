"""Roles are given and taken; of two who would leave no owner, one is refused."""

import asyncio
from pathlib import Path

from tests.support.harness import NOON, Harness, run
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.operations.operation import Done
from valetkey.authorization.operations.roles import GIVE_ROLE
from valetkey.authorization.operations.user_records import RoleWanted
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused

ADA, BOB = Uid(1001), Uid(1002)


async def _bob(it: Harness) -> None:
    accounts = it.foundation.accounts()
    record = UserRecord("bob", "bob@example.com")
    await it.write(lambda tx: accounts.register(tx, record, NOON, uid=BOB))


async def _give(it: Harness, uid: Uid, role: Role | None) -> str:
    """What came of it: "done", "as before" or the check that refused."""
    try:
        done = await it.perform(GIVE_ROLE, {"uid": str(uid)}, RoleWanted(role))
    except Refused as refused:
        return refused.refusal.check
    return "done" if done == Done(changed=True) else "as before"


async def _owners(it: Harness) -> list[int]:
    holders = await it.read(it.foundation.roles.holders)
    return [holder.user.uid for holder in holders if holder.user.role is Role.OWNER]


def test_role_is_granted_once_and_unknown_user_is_not_found(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        assert await _give(it, ADA, Role.SUPPORT) == "done"
        assert await _give(it, ADA, Role.SUPPORT) == "as before"
        assert await _give(it, Uid(77), Role.SUPPORT) == "admin.user"
        assert await _give(it, ADA, None) == "done"
        assert await it.read(it.foundation.roles.holders) == []

    run(tmp_path, story, database_url)


def test_last_two_owners_cannot_lose_their_role_in_parallel(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await _bob(it)
        for _ in range(5):
            for uid in (ADA, BOB):
                await _give(it, uid, Role.OWNER)
            outcomes = await asyncio.gather(_give(it, ADA, None), _give(it, BOB, Role.AUDITOR))
            assert sorted(outcomes) == ["admin.last_owner", "done"]
            assert len(await _owners(it)) == 1

    run(tmp_path, story, database_url)


def test_last_owner_cannot_be_disabled(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _bob(it)
        accounts = it.foundation.accounts()
        for uid in (ADA, BOB):
            await _give(it, uid, Role.OWNER)

        async def disable(uid: Uid) -> str:
            def work(tx: Transaction) -> bool:
                user = tx.users.find(uid)
                assert isinstance(user, User)
                return accounts.disable(tx, user, NOON)

            try:
                return str(await it.write(work))
            except Refused as refused:
                return refused.refusal.check

        assert sorted(await asyncio.gather(disable(ADA), disable(BOB))) == [
            "True",
            "admin.last_owner",
        ]
        # An owner who is switched off is none: the other cannot go either.
        assert sorted(await asyncio.gather(_give(it, ADA, None), _give(it, BOB, None))) == [
            "admin.last_owner",
            "done",
        ]
        assert len(await _owners(it)) == 1

    run(tmp_path, story, database_url)


def test_role_event_records_actor_and_previous_role(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        assert await _give(it, ADA, Role.OWNER) == "done"
        events = await it.read(lambda tx: tx.events.newest(50))
        (event,) = [record for record in events if record.name == "role.changed"]
        assert (event.uid, event.done_by) == (ADA, "cli")
        assert '"before":"","after":"owner"' in event.data

    run(tmp_path, story, database_url)
