"""Who may do what: the table, and that it is asked of the moment."""

from pathlib import Path

import pytest

from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.actions.admin.permissions import (
    MAY,
    NOTHING,
    CommandLine,
    Permission,
    UserActor,
    permissions_of,
    require,
)
from valetkey.authorization.model.user import Role, Session
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint

SESSION = Session("se_1", ALICE.uid, NOON, ("pwd",), "", NOON, NOON, Instant(NOON + 600), None)
ACTOR = UserActor(ALICE.uid, "se_1")


def test_only_owners_give_roles_and_auditors_only_read() -> None:
    assert set(MAY) == set(Role)
    assert MAY[Role.OWNER] == frozenset(Permission)
    assert MAY[Role.OWNER] - MAY[Role.ADMINISTRATOR] == {Permission.ROLES}
    assert MAY[Role.SUPPORT] == {Permission.READ, Permission.RESET}
    assert MAY[Role.AUDITOR] == {Permission.READ}
    assert permissions_of(None) is NOTHING


def test_higher_role_cannot_be_administered() -> None:
    order = (None, Role.AUDITOR, Role.SUPPORT, Role.ADMINISTRATOR, Role.OWNER)
    for rank, role in enumerate(order):
        if role is None:
            continue
        powers = permissions_of(role)
        allowed = [powers.allow(Permission.READ, replace(BOB, role=other)) for other in order]
        assert allowed == [other <= rank for other in range(len(order))], role


def test_role_is_checked_within_the_transaction_that_acts(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        async def of(role: Role | None, *, off: bool = False) -> frozenset[Permission]:
            user = replace(ALICE, disabled_at=NOON if off else None)

            def work(tx: Transaction) -> frozenset[Permission]:
                tx.users.change(user)
                tx.user_directory.set_role(ALICE.uid, role, NOON)
                return ACTOR.permissions_in(tx).permissions

            return await it.store.write(work)

        await it.store.write(lambda tx: tx.sessions.start(SESSION, Fingerprint("print")))
        assert await of(Role.SUPPORT) == MAY[Role.SUPPORT]
        assert await of(None) == frozenset()
        assert await of(Role.OWNER, off=True) == frozenset()
        assert await of(Role.OWNER) == MAY[Role.OWNER]
        await it.store.write(lambda tx: tx.sessions.end("se_1", NOON))
        assert await of(Role.OWNER) == frozenset()

    run(tmp_path, story, database_url)


def test_refusal_distinguishes_missing_permission_from_insufficient_rank(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def work(tx: Transaction) -> list[str]:
            tx.user_directory.set_role(ALICE.uid, Role.SUPPORT, NOON)
            tx.sessions.start(SESSION, Fingerprint("print"))
            checks: list[str] = []
            boss = replace(BOB, role=Role.ADMINISTRATOR)
            for permission, about in ((Permission.RESET, boss), (Permission.KEYS, None)):
                with pytest.raises(Refused) as refused:
                    require(tx, ACTOR, permission, about)
                assert refused.value.refusal.code is ErrorCode.FORBIDDEN
                checks.append(refused.value.refusal.check)
            assert require(tx, ACTOR, Permission.RESET, BOB).role is Role.SUPPORT
            assert require(tx, CommandLine(), Permission.ROLES, boss).role is Role.OWNER
            return checks

        assert await it.store.write(work) == ["admin.rank", "admin.permission"]

    run(tmp_path, story)
