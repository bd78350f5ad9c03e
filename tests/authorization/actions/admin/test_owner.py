"""The owner link: one bearer, once, for a quarter of an hour, and more than a password."""

import asyncio
from pathlib import Path

import pytest

from tests.support.harness import ADA, NOON, Harness, run
from valetkey.authorization.actions.admin.owner import (
    OWNER_LINK_LIFETIME,
    OwnerLink,
    become_owner,
    find_link,
    fresh_link,
    issue_link,
    register_bearer,
)
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.user import Role, Session, Uid, User
from valetkey.authorization.operations.operation import Done
from valetkey.authorization.operations.roles import GIVE_ROLE
from valetkey.authorization.operations.user_records import RoleWanted
from valetkey.authorization.portal.operations import ADMIT_DEVELOPER, DISMISS_DEVELOPER
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_secret


async def issued(it: Harness, *, break_glass: bool = False) -> Secret:
    link, key = fresh_link(SYSTEM.random), it.foundation.keyring.fingerprint_key
    await it.write(lambda tx: issue_link(tx, link, key, it.clock.now, break_glass=break_glass))
    return link


async def found(it: Harness, link: Secret) -> OwnerLink | None:
    key, now = it.foundation.keyring.fingerprint_key, it.clock.now
    return await it.read(lambda tx: find_link(tx, link.reveal(), key, now))


async def there(it: Harness, uid: Uid, *, protected: bool = True) -> str:
    """The id of a session of theirs; the account has a second factor, or none."""
    session_id = f"se_{uid}"

    def work(tx: Transaction) -> None:
        now = it.clock.now
        end = Instant(now + days(1))
        session = Session(session_id, uid, now, ("pwd",), "", now, now, end, None)
        tx.sessions.start(session, Fingerprint(session_id))
        if protected:
            tx.db.run(
                "INSERT INTO credentials (id, uid, kind, data, created_at)"
                " VALUES (:id, :uid, 'passkey', '', 0)",
                id=f"cr_{uid}",
                uid=uid,
            )

    await it.write(work)
    return session_id


async def become(it: Harness, link: OwnerLink, session_id: str) -> str:
    """What came of it: "owner" or the check that refused."""
    sessions, now = it.settings.sessions, it.clock.now
    try:
        user = await it.write(lambda tx: become_owner(tx, link, session_id, sessions, now))
    except Refused as refused:
        return refused.refusal.check
    after = await it.read(lambda tx: tx.users.find(user.uid))
    assert after is not None
    assert after.role is Role.OWNER
    return "owner"


async def ada_as_owner(it: Harness) -> str:
    """Make her the first owner, who may register apps and then may not; the link that did."""
    for operation in (ADMIT_DEVELOPER, DISMISS_DEVELOPER):
        assert await it.perform(operation, {"uid": str(ADA)}) == Done(changed=True)
    secret = await issued(it)
    link = await found(it, secret)
    assert link is not None
    assert await become(it, link, await there(it, ADA)) == "owner"
    return secret.reveal()


def test_ad_01_parallel_uses_of_an_owner_link_make_one_owner(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        accounts = it.foundation.accounts()
        sessions: list[str] = []
        for number in range(64):
            uid = Uid(5_000 + number)
            record = UserRecord(f"p{number}", f"p{number}@example.com")
            await it.write(
                lambda tx, record=record, uid=uid: accounts.register(tx, record, NOON, uid=uid)  # type: ignore[misc]
            )
            sessions.append(await there(it, uid))
        link = await found(it, await issued(it))
        assert link is not None
        outcomes = await asyncio.gather(*(become(it, link, session) for session in sessions))
        assert sorted(outcomes) == ["owner"] + ["owner.link"] * 63
        assert len(await it.read(it.foundation.roles.holders)) == 1

    run(tmp_path, story, database_url)


def test_ad_01_first_used_of_two_owner_links_voids_the_other(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        record = UserRecord("bob", "bob@example.com")
        await it.write(lambda tx: it.foundation.accounts().register(tx, record, NOON, uid=1002))
        links = [await found(it, await issued(it)) for _ in range(2)]
        sessions = [await there(it, Uid(uid)) for uid in (1001, 1002)]
        outcomes = await asyncio.gather(
            *(become(it, link, s) for link, s in zip(links, sessions, strict=True) if link)
        )
        assert sorted(outcomes) == ["owner", "owner.link"]

    run(tmp_path, story, database_url)


def test_ad_01_owner_link_is_invalid_after_use_and_after_expiry(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        late = await issued(it)
        it.clock.forward(OWNER_LINK_LIFETIME)
        assert await found(it, late) is None
        secret = await issued(it)
        link = await found(it, secret)
        assert link is not None
        session = await there(it, ADA)
        assert await become(it, link, session) == "owner"
        assert await found(it, secret) is None
        assert await become(it, link, session) == "owner.link"
        with pytest.raises(Refused, match="break-glass"):
            await issued(it)

    run(tmp_path, story)


def test_ad_01_break_glass_link_adds_an_owner_and_is_recorded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        record = UserRecord("bob", "bob@example.com")
        await it.write(lambda tx: it.foundation.accounts().register(tx, record, NOON, uid=1002))
        await it.perform(GIVE_ROLE, {"uid": str(ADA)}, RoleWanted(Role.OWNER))
        link = await found(it, await issued(it, break_glass=True))
        assert link is not None
        assert await become(it, link, await there(it, Uid(1002))) == "owner"
        assert len(await it.read(it.foundation.roles.holders)) == 2
        events = await it.read(lambda tx: tx.events.newest(50))
        links = [event for event in events if event.name.startswith("owner_link.")]
        assert {event.name for event in links} == {"owner_link.issued", "owner_link.redeemed"}
        assert all('"break_glass":true' in event.data for event in links)

    run(tmp_path, story)


def test_a_password_alone_does_not_make_an_owner(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        link = await found(it, await issued(it))
        assert link is not None
        session = await there(it, ADA, protected=False)
        assert await become(it, link, session) == "owner.factor"
        assert await become(it, link, "se_nobody") == "owner.link"
        # Nothing was used up.
        assert await found(it, await issued(it)) is not None

    run(tmp_path, story)


def test_malformed_and_unknown_owner_links_are_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        key, now = it.foundation.keyring.fingerprint_key, it.clock.now
        foreign = fresh_secret(Prefix.LINK, SYSTEM.random).reveal()
        for text in ("", "\0", "\ud800", "x" * 10_240, foreign):
            assert await it.read(lambda tx, text=text: find_link(tx, text, key, now)) is None  # type: ignore[misc]

    run(tmp_path, story)


def test_bearer_of_an_owner_link_registers_once_and_only_before_it_expires(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        link = await found(it, await issued(it))
        assert link is not None
        accounts = it.foundation.accounts()

        async def register(name: str) -> object:
            record, now = UserRecord(name, f"{name}@example.com"), it.clock.now
            return await it.write(
                lambda tx: register_bearer(tx, link, accounts, record, "$argon2id$", now)
            )

        assert isinstance(await register("olive"), User)
        assert not isinstance(await register("olive"), User)
        it.clock.forward(OWNER_LINK_LIFETIME)
        with pytest.raises(Refused):
            await register("oscar")

    run(tmp_path, story)
