"""A session that goes on: one winner for each cookie, and nothing after the end."""

import asyncio
from pathlib import Path

from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.model.user import Session
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint

SESSION = Session(
    id="se_1",
    uid=ALICE.uid,
    auth_time=NOON,
    methods=("pwd",),
    user_agent="",
    created_at=NOON,
    last_seen_at=NOON,
    expires_at=Instant(NOON + 600),
    ended_at=None,
)
LATER = replace(
    SESSION,
    auth_time=Instant(NOON + 60),
    methods=("pwd", "otp"),
    user_agent="Another",
    last_seen_at=Instant(NOON + 60),
    expires_at=Instant(NOON + 660),
)
OLD = Fingerprint("old")


async def renew(it: Harness, before: Fingerprint, after: str) -> bool:
    return await it.store.write(lambda tx: tx.sessions.renew(LATER, before, Fingerprint(after)))


def test_only_one_of_many_concurrent_renewals_with_one_cookie_succeeds(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.sessions.start(SESSION, OLD))
        results = await asyncio.gather(*(renew(it, OLD, f"new-{number}") for number in range(32)))
        assert sorted(results) == [False] * 31 + [True]
        winner = Fingerprint(f"new-{results.index(True)}")
        assert await it.store.read(lambda tx: tx.sessions.find(OLD)) is None
        assert await it.store.read(lambda tx: tx.sessions.find(winner)) == LATER

    run(tmp_path, story, database_url)


def test_ended_session_cannot_be_renewed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.sessions.start(SESSION, OLD))
        assert await it.store.write(lambda tx: tx.sessions.end("se_1", NOON))
        assert not await renew(it, OLD, "new")
        session = await it.store.read(lambda tx: tx.sessions.find(OLD))
        assert session == replace(SESSION, ended_at=NOON)

    run(tmp_path, story, database_url)


def test_participants_are_kept_for_as_long_as_their_session_lasts(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.sessions.start(SESSION, OLD))
        assert await it.store.write(lambda tx: tx.participants.add("se_1", WEB.id, NOON))
        until = Instant(NOON + 660)
        await it.store.write(lambda tx: tx.participants.extend("se_1", until))
        swept = [
            await it.store.write(lambda tx, at=at: tx.participants.sweep(at, 10))  # type: ignore[misc]
            for at in (Instant(NOON + 659), until)
        ]
        assert swept == [0, 1]

    run(tmp_path, story, database_url)
