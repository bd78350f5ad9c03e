"""Usage: each event is counted once, whoever counts, whenever it was committed."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import psycopg

from tests.support import visitors
from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, BOB
from tests.support.wait import CEILING
from valetkey.authorization.actions.usage import (
    BATCH,
    DAYS_KEPT,
    LAG,
    PEOPLE_DAYS,
    PKCE_MISSING,
    PKCE_USED,
    Day,
    grant_used,
    roll_up,
    scope_used,
    sweep_counts,
    sweep_people,
    usage_of,
)
from valetkey.authorization.background.maintenance import Maintenance
from valetkey.authorization.model.event.accounts import SessionStarted, SignInFailed
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.event.grants import (
    AccessTokenIssued,
    CodeIssued,
    CodeRedeemed,
    RefreshTokenRepeated,
    RefreshTokenUsed,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue, day_of
from valetkey.database.connect import connect
from valetkey.kernel.moment import Instant, days, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime

TODAY = day_of(NOON)
NO = Refusal(ErrorCode.INVALID_GRANT, "no", "test.check")


def run(directory: Path, story: Callable[[Harness], Awaitable[None]], database: str = "") -> None:
    """Run a test on a server without events."""

    async def begin(it: Harness) -> None:
        await it.store.write(lambda tx: tx.events.sweep(Instant(NOON + 1), 1_000))
        await story(it)

    visitors.run(directory, begin, database)


async def count(it: Harness, at: Instant | None = None) -> int:
    """Count until there is nothing left; how many events it was."""
    now = it.clock.now if at is None else at
    total = 0
    while number := await it.store.write(lambda tx: roll_up(tx, now)):
        total += number
    return total


async def days_of(it: Harness, client_id: str | None) -> Sequence[Day]:
    since = Instant(NOON - days(90))
    return await it.store.read(lambda tx: usage_of(tx, client_id, since))


API = "https://a.x"


async def counted(it: Harness, client_id: str | None) -> Day:
    """The one day on which anything was counted."""
    (day,) = await days_of(it, client_id)
    return day


def redeemed(uid: int = ALICE.uid, client: str = "web1", scope: str = "read") -> CodeRedeemed:
    return CodeRedeemed(uid, client, "gr_1", "at_1", scope, API)


def test_tokens_users_and_sign_ins_are_counted_by_day_and_kind(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            for uid in (ALICE.uid, ALICE.uid, BOB.uid):
                tx.events.add(redeemed(uid), NOON)
            tx.events.add(RefreshTokenUsed(ALICE.uid, "web1", "g", "t", True, "write", API), NOON)
            tx.events.add(RefreshTokenRepeated("web1", "g", "t", API), NOON)
            own = AccessTokenIssued(
                "nat1", None, None, "t", "client_credentials", "x", "https://a.x"
            )
            tx.events.add(own, NOON)
            tx.events.add(redeemed(ALICE.uid, "nat1"), Instant(NOON + days(1)))
            tx.events.add(SessionStarted(ALICE.uid, "se", ("pwd",)), NOON)
            tx.events.add(SignInFailed(None, "page"), NOON)

        await it.store.write(happen)
        it.clock.forward(days(2))
        assert await count(it) == 9
        web = await counted(it, "web1")
        assert web == Day(TODAY, {"authorization_code": 3, "refresh_token": 2}, 2, {}, {API: 5})
        one, other = await days_of(it, "nat1")
        assert (one.tokens, one.people) == ({"client_credentials": 1}, 0)
        assert (other.day, other.people) == (TODAY + 1, 1)
        first, second = await days_of(it, None)
        assert first.tokens == {
            "authorization_code": 3,
            "client_credentials": 1,
            "refresh_token": 2,
        }
        # Alice used two apps on one day or on two, and is one person on each.
        assert (first.people, second.people) == (2, 1)
        assert (first.sign_ins, first.failed_sign_ins) == (1, 1)
        active = await it.store.read(lambda tx: tx.usage.active_since("web1", TODAY))
        assert active == 2

    run(tmp_path, story, database_url)


def test_time_of_last_use_is_recorded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            tx.events.add(CodeIssued(ALICE.uid, "web1", "g", pkce=False), NOON)
            tx.events.add(CodeIssued(ALICE.uid, "web1", "g", pkce=True), Instant(NOON + 5))
            tx.events.add(redeemed(scope="read notes:read"), Instant(NOON + 6))

        await it.store.write(happen)
        it.clock.forward(days(1))
        await count(it)
        assert await it.store.read(lambda tx: tx.usage.latest("web1")) == {
            PKCE_MISSING: NOON,
            PKCE_USED: NOON + 5,
            grant_used("authorization_code"): NOON + 6,
            scope_used("read"): NOON + 6,
            scope_used("notes:read"): NOON + 6,
        }

    run(tmp_path, story)


def test_processes_that_count_at_once_count_each_event_once(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        many = 4 * BATCH

        def happen(tx: Transaction) -> None:
            for number in range(many):
                tx.events.add(redeemed(ALICE.uid + number % 7), NOON)

        await it.store.write(happen)
        it.clock.forward(minutes(5))
        another = Store(connect(database_url, directory=tmp_path), SYSTEM.random)
        try:
            now, total = it.clock.now, 0
            while some := sum(
                await asyncio.gather(
                    *(
                        store.write(lambda tx: roll_up(tx, now), done_by=USUAL_ACTOR)
                        for store in (it.store, another) * 8
                    )
                )
            ):
                total += some
        finally:
            await another.engine.close()
        assert total == many
        day = await counted(it, "web1")
        assert (day.tokens, day.people) == ({"authorization_code": many}, 7)

    run(tmp_path, story, database_url)


def test_rolled_back_count_stores_nothing_and_is_repeated(
    tmp_path: Path, database_url: str
) -> None:
    class _Killed(Exception):
        pass

    def interrupted(tx: Transaction) -> None:
        assert roll_up(tx, Instant(NOON + LAG + 1)) == 1
        raise _Killed

    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.events.add(redeemed(), NOON))
        it.clock.forward(LAG + 1)
        with contextlib.suppress(_Killed):
            await it.store.write(interrupted)
        assert await days_of(it, "web1") == []
        assert await count(it) == 1
        assert await count(it) == 0
        assert (await counted(it, "web1")).tokens == {"authorization_code": 1}

    run(tmp_path, story, database_url)


def test_an_event_is_counted_when_it_is_older_than_the_lag_and_no_sooner(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.events.add(redeemed(), NOON))
        assert await count(it, Instant(NOON + LAG)) == 0
        assert await count(it, Instant(NOON + LAG + 1)) == 1

    run(tmp_path, story)


def test_event_that_commits_late_is_counted(tmp_path: Path, postgres_url: str) -> None:
    """A request of noon commits after a later one, while another process counts."""

    async def story(it: Harness) -> None:
        begun, may_end = threading.Event(), threading.Event()

        def slow() -> None:
            with psycopg.connect(postgres_url) as raw:
                raw.execute(
                    "INSERT INTO events (id, at, name, client_id, uid, data, done_by)"
                    " VALUES ('ev_late', %s, 'code.redeemed', 'web1', 1001,"
                    """ '{"scope":"read"}', '')""",
                    (NOON,),
                )
                begun.set()
                may_end.wait(CEILING)

        thread = threading.Thread(target=slow)
        thread.start()
        try:
            await asyncio.to_thread(begun.wait, 20)
            later = Instant(NOON + 1)
            await it.store.write(lambda tx: tx.events.add(redeemed(), later))
            # As long as the late one may still be on its way, the cursor waits for it.
            for waited in (1, 30, LAG):
                assert await count(it, Instant(NOON + waited)) == 0
        finally:
            may_end.set()
            await asyncio.to_thread(thread.join)
        assert await count(it, Instant(NOON + LAG + 2)) == 2
        assert (await counted(it, "web1")).tokens == {"authorization_code": 2}

    run(tmp_path, story, postgres_url)


def test_refusal_is_counted_once_though_its_write_is_repeated(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        queue = ClientDecisionQueue(SYSTEM.random)
        maintenance = Maintenance(
            it.store, queue, it.authorize.minter.keys, Runtime(lambda: NOON, SYSTEM.random)
        )
        queue.enqueue(NO, endpoint="/oauth/token", at=NOON, client_id="web1", proven=True)
        queue.enqueue(NO, endpoint="/oauth/token", at=NOON)
        same = list(queue.waiting)
        await maintenance.flush()
        # The database had written them, and could not say so any more.
        queue.give_back(same)
        queue.enqueue(NO, endpoint="/oauth/token", at=NOON, client_id="web1", proven=True)
        await maintenance.flush()
        assert (await counted(it, "web1")).errors == {"invalid_grant": 2}
        assert (await counted(it, None)).errors == {"invalid_grant": 3}

    run(tmp_path, story, database_url)


def test_old_usage_counts_and_records_of_inactive_users_are_deleted(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.events.add(redeemed(), NOON))
        it.clock.forward(LAG + 1)
        await count(it)
        for lapse, people, kept in ((PEOPLE_DAYS, 1, 1), (1, 0, 1), (DAYS_KEPT, 0, 0)):
            it.clock.forward(days(lapse))
            now = it.clock.now
            await it.store.write(lambda tx, now=now: sweep_people(tx, now, 100))  # type: ignore[misc]
            await it.store.write(lambda tx, now=now: sweep_counts(tx, now, 100))  # type: ignore[misc]
            active_people = await it.store.read(lambda tx: tx.usage.active_since("web1", 0))
            assert (active_people, len(await days_of(it, "web1"))) == (people, kept)

    run(tmp_path, story, database_url)


def test_usage_data_of_a_removed_client_is_deleted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            tx.events.add(redeemed(ALICE.uid, "nat1"), NOON)
            tx.events.add(redeemed(BOB.uid, "web1"), NOON)

        await it.store.write(happen)
        it.clock.forward(LAG + 1)
        await count(it)
        await it.store.write(lambda tx: tx.clients.remove("nat1", it.clock.now))
        assert await days_of(it, "nat1") == []
        assert await it.store.read(lambda tx: tx.usage.latest("nat1")) == {}
        assert await it.store.read(lambda tx: tx.usage.active_since("nat1", 0)) == 0
        assert await it.store.read(lambda tx: tx.usage.active_since("web1", 0)) == 1
        assert (await counted(it, None)).tokens == {"authorization_code": 2}

    run(tmp_path, story, database_url)


def test_events_older_than_the_retention_are_not_counted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            tx.events.add(redeemed(), Instant(NOON - days(DAYS_KEPT + 1)))
            tx.events.add(replace(redeemed(), client_id="nat1"), NOON)

        await it.store.write(happen)
        assert await count(it, Instant(NOON + LAG + 1)) == 1
        assert await days_of(it, "web1") == []

    run(tmp_path, story)
