"""Keys of several algorithms live side by side, and each kind has a life of its own."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.authorization.tokens.test_signing_keys import NOON, PLAN, Keys, run
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.storage.signing_keys import KeyState
from valetkey.authorization.tokens.signing_keys import NoSigningKey
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, days, later

ALL = tuple(Algorithm)
QUICK = (Algorithm.ES256, Algorithm.EDDSA)
IN_ORDER = [KeyState.CURRENT, KeyState.NEXT]


def test_each_algorithm_signs_with_a_key_of_its_own_and_all_are_published(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        ring, other = it.ring(algorithms=ALL), it.ring(algorithms=ALL)
        await ring.maintain(NOON)
        await other.refresh(NOON)
        assert len({ring.current(NOON, algorithm).kid for algorithm in ALL}) == len(ALL)
        published = other.published(NOON)
        assert [key.algorithm for key in published] == [
            algorithm for algorithm in ALL for _ in "12"
        ]
        for algorithm in ALL:
            token = jwt.sign(
                {"aud": "a", "exp": NOON + 60}, ring.current(NOON, algorithm), typ="JWT"
            )
            claims = jwt.verify(
                token, published, typ=("jwt",), algorithms=(algorithm,), audience="a", now=NOON
            )
            assert claims["exp"] == NOON + 60
            assert other.current(NOON, algorithm).kid == ring.current(NOON, algorithm).kid
            assert await it.states(NOON, algorithm) == IN_ORDER

    run(sqlite_url, tmp_path, story)


def test_added_algorithms_get_keys_and_existing_keys_are_kept(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        before = it.ring()
        await before.maintain(NOON)
        later_on = later(NOON, days(30))
        ring = it.ring(algorithms=ALL)
        await ring.maintain(later_on)
        assert ring.current(later_on).kid == before.current(NOON).kid
        for algorithm in ALL:
            assert await it.states(later_on, algorithm) == IN_ORDER
        # A process that has no setting for them publishes them, and signs with none of them.
        await before.maintain(later_on)
        assert len(before.published(later_on)) == 2 * len(ALL)
        with pytest.raises(NoSigningKey, match="RS256"):
            before.current(later_on, Algorithm.RS256)
        assert await it.events() == ["issued"] * 8

    run(sqlite_url, tmp_path, story)


def test_parallel_processes_create_one_key_for_each_algorithm(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        for now in (NOON, later(NOON, days(90))):
            rings = [it.ring(algorithms=ALL) for _ in range(3)]
            await asyncio.gather(*(ring.maintain(now) for ring in rings))
            for algorithm in ALL:
                assert len({ring.current(now, algorithm).kid for ring in rings}) == 1
        assert await it.events() == ["issued"] * 12 + ["retired"] * 4

    run(database_url, tmp_path, story)


def test_parallel_rotations_leave_one_published_current_key_for_each_algorithm(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        rings = [it.ring(algorithms=QUICK) for _ in range(4)]
        await asyncio.gather(*(ring.maintain(NOON) for ring in rings))
        for _ in range(3):
            await asyncio.gather(
                *(ring.rotate(NOON, at_once=True, done_by=SYSTEM) for ring in rings)
            )
            await asyncio.gather(*(ring.maintain(NOON) for ring in rings))
            for algorithm in QUICK:
                assert len({ring.current(NOON, algorithm).kid for ring in rings}) == 1
                assert (await it.states(NOON, algorithm)).count(KeyState.CURRENT) == 1
                assert (await it.states(NOON, algorithm)).count(KeyState.NEXT) == 1
                kid = rings[0].current(NOON, algorithm).kid
                assert all(ring.published(NOON).find(kid) for ring in rings)

    run(database_url, tmp_path, story)


def test_rotation_or_withdrawal_affects_only_one_algorithm(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring(algorithms=QUICK)
        await ring.maintain(NOON)
        usual, other = (ring.current(NOON, algorithm).kid for algorithm in QUICK)
        await ring.rotate(NOON, at_once=True, algorithm=Algorithm.EDDSA, done_by=SYSTEM)
        assert ring.current(NOON).kid == usual
        assert ring.current(NOON, Algorithm.EDDSA).kid != other
        leaked = ring.current(NOON, Algorithm.EDDSA).kid
        assert await ring.withdraw(leaked, NOON, done_by=SYSTEM)
        assert ring.current(NOON).kid == usual
        assert ring.current(NOON, Algorithm.EDDSA).kid not in {other, leaked}
        assert ring.published(NOON).find(leaked) is None
        assert ring.published(NOON).find(other) is not None
        with pytest.raises(NoSigningKey):
            await ring.rotate(NOON, algorithm=Algorithm.RS256, done_by=SYSTEM)

    run(sqlite_url, tmp_path, story)


def test_keys_of_a_removed_algorithm_remain_until_their_lifetime_ends(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        await it.ring(algorithms=QUICK).maintain(NOON)
        ring, now = it.ring(), NOON
        end = later(NOON, days(2 * 90 + 2))
        while now < end:
            await ring.maintain(now)
            assert await it.states(now, Algorithm.EDDSA)
            now = later(now, days(1))
        await ring.maintain(now)
        assert await it.states(now, Algorithm.EDDSA) == []
        assert await it.states(now) == IN_ORDER
        # Wanted again, it begins anew.
        both = it.ring(algorithms=QUICK)
        await both.maintain(now)
        assert await it.states(now, Algorithm.EDDSA) == IN_ORDER

    run(sqlite_url, tmp_path, story)


def test_expired_key_is_not_published_from_the_second_it_expires(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring()
        await ring.maintain(NOON)
        first = ring.current(NOON).kid
        await ring.rotate(NOON, at_once=True, done_by=SYSTEM)
        gone = later(NOON, days(2))
        for now, there in ((NOON, True), (Instant(gone - 1), True), (gone, False), (NOON, True)):
            assert (ring.published(now).find(first) is not None) is there

    run(sqlite_url, tmp_path, story)


def test_forced_refresh_loads_keys_created_in_the_same_second(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        ring, other = it.ring(), it.ring()
        await ring.maintain(NOON)
        await other.refresh(NOON)
        for _ in range(5):
            # Both keys at once, so that the one which signs is one that nobody has met.
            for key in list(ring.published(NOON)):
                await ring.withdraw(key.kid, NOON, done_by=SYSTEM)
            kid = ring.current(NOON).kid
            await other.refresh(NOON, surely=True)
            assert other.published(NOON).find(kid) is not None
            assert other.current(NOON).kid == kid

    run(database_url, tmp_path, story)


def test_slow_key_generation_blocks_no_request(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring(algorithms=ALL)
        began, here = time.process_time(), time.thread_time()
        await ring.maintain(NOON)
        for _ in range(3):
            await ring.rotate(NOON, at_once=True, done_by=SYSTEM)
            for algorithm in ALL:
                ring.current(NOON, algorithm)
        # Sixteen RSA keys are most of the work, and none of it is done where requests are.
        assert time.thread_time() - here < (time.process_time() - began) / 2

    run(sqlite_url, tmp_path, story)


def test_key_plan_without_algorithms_uses_es256() -> None:
    assert PLAN.algorithms == (Algorithm.ES256,)
