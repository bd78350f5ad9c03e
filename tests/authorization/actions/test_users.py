"""The register of people: who may be called what, and what ends with an account."""

import asyncio
from pathlib import Path

import pytest

from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.users import (
    PostalAddress,
    Profile,
    UserRecord,
    fresh_uid,
    withdraw,
)
from valetkey.authorization.model.user import (
    LARGEST_UID,
    SMALLEST_UID,
    Address,
    StandardClaims,
    Uid,
    User,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

_BOB = UserRecord("bob", "bob@example.com", "Bob")


async def _register(it: Harness, record: UserRecord, uid: int | None = None) -> User | set[str]:
    accounts = it.foundation.accounts()
    outcome = await it.write(lambda tx: accounts.register(tx, record, it.clock.now, uid=uid))
    return {fault.field for fault in outcome} if isinstance(outcome, tuple) else outcome


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (replace(_BOB, username=""), "username"),
        (replace(_BOB, username=" "), "username"),
        (replace(_BOB, username="b ob"), "username"),
        (replace(_BOB, username="bob@example.com"), "username"),
        # A full-width at sign folds to one: the name would be another's address.
        (replace(_BOB, username="ada\uff20example.com"), "username"),
        (replace(_BOB, username="b\u00a8b"), "username"),
        (replace(_BOB, username="b\u3000b"), "username"),
        (replace(_BOB, username="\ud800"), "username"),
        (replace(_BOB, username="b" * 201), "username"),
        (replace(_BOB, username="ADA"), "username"),
        (replace(_BOB, email="Ada@Example.com"), "email"),
        (replace(_BOB, email="nobody"), "email"),
        (replace(_BOB, email="@x"), "email"),
        (replace(_BOB, email="a b@x"), "email"),
        (replace(_BOB, email="a\n@x"), "email"),
        (replace(_BOB, email="a@" + "x" * 200), "email"),
        (replace(_BOB, name="a\u202eb"), "name"),
        (replace(_BOB, name="a" * 201), "name"),
    ],
)
def test_invalid_taken_or_confusable_names_are_refused(
    tmp_path: Path, record: UserRecord, field: str
) -> None:
    async def story(it: Harness) -> None:
        assert await _register(it, record) == {field}
        assert isinstance(await _register(it, _BOB), User)

    run(tmp_path, story)


@pytest.mark.parametrize("uid", [0, -1, LARGEST_UID + 1, 1 << 63])
def test_uid_out_of_range_is_refused(tmp_path: Path, uid: int) -> None:
    async def story(it: Harness) -> None:
        assert await _register(it, _BOB, uid) == {"uid"}
        largest = await _register(it, _BOB, LARGEST_UID)
        assert isinstance(largest, User)
        assert largest.uid == LARGEST_UID

    run(tmp_path, story)


def test_a_uid_at_random_is_in_range() -> None:
    assert fresh_uid(lambda size: b"\xff" * size) <= LARGEST_UID
    assert fresh_uid(lambda size: b"\0" * size) == SMALLEST_UID
    assert len({fresh_uid(SYSTEM.random) for _ in range(100)}) == 100


def test_parallel_registrations_of_a_username_succeed_once(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        outcomes = await asyncio.gather(*(_register(it, _BOB) for _ in range(8)))
        assert sum(isinstance(outcome, User) for outcome in outcomes) == 1
        assert [outcome for outcome in outcomes if not isinstance(outcome, User)] == [
            {"username"}
        ] * 7

    run(tmp_path, story, database_url)


def test_change_is_reported_once_and_new_address_needs_verification(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        accounts = it.foundation.accounts()
        bob = await _register(it, _BOB)
        assert isinstance(bob, User)
        assert bob.email_verified_at == it.clock.now
        it.clock.forward(1)

        async def change(user: User, record: UserRecord) -> User:
            outcome = await it.write(lambda tx: accounts.change(tx, user, record, it.clock.now))
            assert isinstance(outcome, User), outcome
            return outcome

        assert await change(bob, _BOB) is bob
        bob = await change(bob, replace(_BOB, email="b@example.com"))
        assert bob.email_verified_at == it.clock.now
        bob = await change(bob, replace(_BOB, email="b@example.com", email_verified=False))
        assert bob.email_verified_at is None
        taken = replace(_BOB, username="ada")
        faults = await it.write(lambda tx: accounts.change(tx, bob, taken, it.clock.now))
        assert isinstance(faults, tuple)
        faults = await it.write(
            lambda tx: accounts.change(tx, bob, replace(_BOB, name="\0"), it.clock.now)
        )
        assert isinstance(faults, tuple)
        assert await it.events() == ["user.changed"] * 2

    run(tmp_path, story)


@pytest.mark.parametrize("deed", ["disable", "password"])
def test_sessions_and_grants_end_with_the_account(tmp_path: Path, deed: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        accounts = it.foundation.accounts()
        tokens = [(await it.tokens("web", "account:read")).text("access_token") for _ in range(2)]
        code = await it.code("web")
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None

        def act(tx: Transaction) -> None:
            if deed == "disable":
                assert accounts.disable(tx, user, it.clock.now)
            else:
                accounts.set_password(tx, user, "hash", it.clock.now)

        await it.write(act)
        for token in tokens:
            assert await it.introspect(token) == {"active": False}
        (await it.exchange("web", code)).refused(400, "invalid_grant")
        event_name = {"disable": "user.disabled", "password": "password.changed"}[deed]
        events = await it.events()
        assert events.count(event_name) == 1
        assert events.count("grant.revoked") == 2
        assert events.count("session.ended") == 3
        off = await it.read(lambda tx: tx.users.find(ADA))
        assert off is not None
        again = await it.write(lambda tx: accounts.disable(tx, off, it.clock.now))
        assert again is (deed == "password")

    run(tmp_path, story)


def test_enabled_account_does_not_regain_sessions_or_grants(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        accounts = it.foundation.accounts()
        token = (await it.tokens("web")).text("refresh_token")
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert not await it.write(lambda tx: accounts.enable(tx, user, it.clock.now))
        assert await it.write(lambda tx: accounts.disable(tx, user, it.clock.now))
        off = await it.read(lambda tx: tx.users.find(ADA))
        assert off is not None
        assert await it.write(lambda tx: accounts.enable(tx, off, it.clock.now))
        (await it.refresh("web", token)).refused(400, "invalid_grant")
        assert (await it.events()).count("user.enabled") == 1

    run(tmp_path, story)


def test_concurrent_change_does_not_enable_a_disabled_account(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        accounts = it.foundation.accounts()

        def disable(tx: Transaction) -> bool:
            user = tx.users.find(ADA)
            assert user is not None
            return accounts.disable(tx, user, it.clock.now)

        def enable(tx: Transaction) -> bool:
            user = tx.users.find(ADA)
            assert user is not None
            return accounts.enable(tx, user, it.clock.now)

        for number in range(8):
            token = (await it.tokens("web", "account:write")).text("access_token")
            changes = (
                it.ask(token, "account", "change", changes={"name": f"Ada {number} {attempt}"})
                for attempt in range(4)
            )
            await asyncio.gather(*changes, it.write(disable))
            user = await it.read(lambda tx: tx.users.find(ADA))
            assert user is not None
            assert user.disabled_at is not None
            assert await it.write(enable)

    run(tmp_path, story, database_url)


def test_only_the_user_can_withdraw_a_live_grant(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        grant_id = str((await it.introspect(token))["grant_id"])
        for uid, grant in ((Uid(7), grant_id), (ADA, "gr_none")):
            assert not await it.write(lambda tx, u=uid, i=grant: withdraw(tx, u, i, it.clock.now))  # type: ignore[misc]
        assert await it.write(lambda tx: withdraw(tx, ADA, grant_id, it.clock.now))
        assert not await it.write(lambda tx: withdraw(tx, ADA, grant_id, it.clock.now))
        assert (await it.events()).count("grant.revoked") == 1

    run(tmp_path, story)


def test_grants_begun_while_account_was_disabled_stay_dead(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.tokens("web")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        accounts = it.foundation.accounts()
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert await it.write(lambda tx: accounts.disable(tx, user, it.clock.now))
        off = await it.read(lambda tx: tx.users.find(ADA))
        assert off is not None
        # As a transaction that overlapped with this one would have left it.
        assert await it.write(lambda tx: tx.grants.issue(replace(grant, id="gr_late")))
        assert await it.write(lambda tx: accounts.enable(tx, off, it.clock.now))
        assert not await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))

    run(tmp_path, story)


def test_profile_input_has_the_same_fields_as_stored_claims() -> None:
    assert Profile.__struct_fields__ == StandardClaims.__struct_fields__
    assert PostalAddress.__struct_fields__ == Address.__struct_fields__
