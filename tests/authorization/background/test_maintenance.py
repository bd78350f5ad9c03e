"""What a server does by itself: what ended goes, what lives stays, and never much at once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.harness import ADA, Harness, run
from tests.support.wait import until_found
from valetkey.authorization.background import maintenance as module
from valetkey.authorization.background.maintenance import (
    BATCH,
    QUEUED_BATCH,
    SWEEPS,
    Maintenance,
    pause_after,
    sweep_all,
)
from valetkey.authorization.device.model import DeviceCode
from valetkey.authorization.device.storage import DeviceCodes
from valetkey.authorization.features import FEATURES
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.revocations import (
    BulkRevocation,
    BulkRevocationKind,
    RevokedKind,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.moment import Instant, days, hours, later, minutes, seconds
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint, Secret

_REFUSAL = Refusal(ErrorCode.INVALID_REQUEST, "no", "test.check", "this", "that")
_TABLES = (
    "vouchers",
    "device_codes",
    "access_tokens",
    "grants",
    "sessions",
    "participants",
    "revocations",
    "decisions",
    "throttles",
    "client_secrets",
    "signing_keys",
    "invitations",
)
_KEPT = ("clients", "users", "uids", "consents", "events", "query_sightings", "credentials")


async def _counts(it: Harness, tables: Sequence[str] = _TABLES) -> dict[str, int]:
    def count(tx: Transaction) -> dict[str, int]:
        rows = {table: tx.db.row(f"SELECT count(*) FROM {table}") for table in tables}
        return {table: int(row[0]) for table, row in rows.items() if row is not None}

    return await it.read(count)


async def _sweep(it: Harness) -> int:
    sweeps = (*SWEEPS, *(sweep for feature in FEATURES for sweep in feature.sweeps))
    return await sweep_all(it.foundation.store, it.clock.now, sweeps)


async def _fill(it: Harness) -> None:
    """A row that will end in every table that is swept."""
    client = await it.client("web", access_token_format="reference")
    tokens = await it.tokens("web")
    registrar = it.foundation.registrar("test")

    def work(tx: Transaction) -> None:
        tx.revocations.add(RevokedKind.TOKEN, "at_1", it.clock.now)
        (session,) = tx.sessions.live_of(ADA, it.clock.now)
        assert tx.participants.add(session.id, "web", it.clock.now)
        code, print_ = Fingerprint("device code"), Fingerprint("user code")
        fields = (code, print_, "web", 0, Scope.of("read"), "", "gr_1", it.clock.now)
        DeviceCodes.of(tx).issue(DeviceCode(*fields, later(it.clock.now, days(1)), seconds(5)))
        tx.throttles.take("bucket", Limit(3, minutes(1)), it.clock.now)
        invitation = InitialAccessToken("in_1", "", 1, it.clock.now, later(it.clock.now, days(1)))
        tx.invitations.issue(Fingerprint("invitation"), invitation)
        registrar.issue_secret(tx, client, Secret("n" * 40), it.clock.now, others_live=hours(1))

    await it.write(work)
    (await it.refresh("web", tokens.text("refresh_token"), scope="write")).refused(
        400, "invalid_scope"
    )
    await it.refusals_recorded()


def test_sweep_deletes_all_expired_rows_and_no_live_ones(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _fill(it)
        before = await _counts(it)
        assert all(before.values()), before
        kept = await _counts(it, _KEPT)
        assert await _sweep(it) == 0
        assert await _counts(it) == before
        it.clock.forward(hours(1))
        assert await _sweep(it) == 2 + before["throttles"]
        after = await _counts(it)
        # The token expired, the first of the web client's secrets ended, the buckets are empty.
        assert after == {
            **before,
            "access_tokens": 0,
            "client_secrets": before["client_secrets"] - 1,
            "throttles": 0,
        }
        it.clock.forward(it.settings.tokens.refresh_token_lifetime + days(3))
        await it.foundation.keys.maintain(it.clock.now)
        await _sweep(it)
        it.clock.forward(days(3))
        await _sweep(it)
        after = await _counts(it)
        assert after == {**dict.fromkeys(_TABLES, 0), "client_secrets": 2, "signing_keys": 2}
        assert {**await _counts(it, _KEPT), "events": 0} == {**kept, "events": 0}

    run(tmp_path, story)


def test_used_code_is_kept_for_an_hour_after_its_expiry(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web")
        tokens = await it.exchange("web", code)
        it.clock.forward(60 + hours(1) - 1)
        assert await _sweep(it) == 0
        (await it.exchange("web", code)).refused(400, "invalid_grant")
        assert sorted(await it.events()) == ["code.redeemed", "code.replayed", "grant.revoked"]
        it.clock.forward(1)
        await _sweep(it)
        (await it.exchange("web", code)).refused(400, "invalid_grant")
        assert (await it.events()).count("code.replayed") == 1
        (await it.refresh("web", tokens.text("refresh_token"))).refused(400, "invalid_grant")

    run(tmp_path, story)


def test_expired_rows_are_deleted_in_batches(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        def many(tx: Transaction) -> None:
            for number in range(2 * BATCH + 1):
                tx.revocations.add(RevokedKind.TOKEN, f"at_{number}", it.clock.now)

        await it.write(many)
        it.clock.forward(days(3))
        largest = 0

        def watched(tx: Transaction, now: Instant) -> int:
            nonlocal largest
            gone = tx.revocations.sweep(now, BATCH)
            largest = max(largest, gone)
            return gone

        assert await sweep_all(it.foundation.store, it.clock.now, (watched,)) == 2 * BATCH + 1
        assert largest == BATCH

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    ("took", "hurried", "pause"),
    [(0.001, False, 0.009), (0.1, False, 0.02), (0.001, True, 0.001), (0.1, True, 0.006)],
)
def test_sweep_pauses_for_longer_than_its_transactions_unless_it_hurries(
    took: float, hurried: bool, pause: float
) -> None:
    assert pause_after(took, hurried=hurried) == pytest.approx(pause)


@pytest.mark.parametrize(("unhurried", "transactions"), [(60.0, 6), (0.0, 2)])
def test_sweep_that_is_not_done_in_time_hurries(
    tmp_path: Path, database_url: str, unhurried: float, transactions: int
) -> None:
    async def story(it: Harness) -> None:
        def many(tx: Transaction) -> None:
            for number in range(5 * BATCH):
                tx.revocations.add(RevokedKind.TOKEN, f"at_{number}", it.clock.now)

        await it.write(many)
        it.clock.forward(days(3))
        begun: list[Transaction] = []

        def watched(tx: Transaction, now: Instant) -> int:
            if not any(tx is transaction for transaction in begun):
                begun.append(tx)
            return tx.revocations.sweep(now, BATCH)

        store, now = it.foundation.store, it.clock.now
        assert await sweep_all(store, now, (watched,), unhurried=unhurried) == 5 * BATCH
        assert len(begun) == transactions

    run(tmp_path, story, database_url)


def test_sweep_pauses_after_each_transaction_but_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, pauses = [BATCH, BATCH, 1], list[tuple[float, bool]]()

    def sweep(_tx: Transaction, _now: Instant) -> int:
        return left.pop(0)

    def pause(took: float, *, hurried: bool) -> float:
        pauses.append((took, hurried))
        return 0.0

    monkeypatch.setattr(module, "pause_after", pause)

    async def story(it: Harness) -> None:
        swept = await sweep_all(it.foundation.store, it.clock.now, (sweep,))
        assert swept == 2 * BATCH + 1
        assert [hurried for _, hurried in pauses] == [False, False]
        assert all(took > 0 for took, _ in pauses)

    run(tmp_path, story)


def test_refusal_can_be_found_by_its_reference_for_a_week(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.exchange("web", "x")
        reference = answer.text("reference")
        decision = await until_found(lambda: it.read(lambda tx: tx.decisions.find(reference)))
        assert decision is not None
        assert (decision.client_id, decision.endpoint) == ("web", "/oauth/token")
        assert (decision.code, decision.check) == ("invalid_grant", "code.unknown")
        it.clock.forward(days(7) - 1)
        assert await _sweep(it) == 0
        it.clock.forward(1)
        assert await _sweep(it) == 1

    run(tmp_path, story)


class _Broken(Store):
    """A database that is away."""

    async def write(self, work: object, *, done_by: object) -> object:  # type: ignore[override]
        raise DatabaseUnavailable


def test_refusals_stay_queued_until_the_database_is_available(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        queue, store = ClientDecisionQueue(SYSTEM.random), it.foundation.store
        runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
        references = [
            queue.enqueue(_REFUSAL, endpoint=f"/{number}", at=it.clock.now)
            for number in range(QUEUED_BATCH + 1)
        ]
        away = Maintenance(_Broken(store.engine, store.random), queue, it.foundation.keys, runtime)
        with pytest.raises(DatabaseUnavailable):
            await away.flush()
        assert [decision.reference for decision in queue.waiting] == references
        await Maintenance(store, queue, it.foundation.keys, runtime).flush()
        assert not queue.waiting
        for reference in (references[0], references[-1]):
            assert await it.read(lambda tx, r=reference: tx.decisions.find(r))  # type: ignore[misc]

    run(tmp_path, story)


def test_full_queue_drops_its_oldest_refusals() -> None:
    queue, now = ClientDecisionQueue(SYSTEM.random), Instant(0)
    references = [queue.enqueue(_REFUSAL, endpoint="/", at=now) for _ in range(10_001)]
    assert [decision.reference for decision in queue.waiting] == references[1:]
    first = queue.drain(500)
    references += [queue.enqueue(_REFUSAL, endpoint="/", at=now) for _ in range(300)]
    queue.give_back(first)
    assert [decision.reference for decision in queue.waiting] == references[-10_000:]
    assert len(queue.drain()) == 10_000


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 100_000, "\U0001f511"])
def test_refusal_with_any_text_is_stored(tmp_path: Path, database_url: str, text: str) -> None:
    async def story(it: Harness) -> None:
        queue = ClientDecisionQueue(SYSTEM.random)
        refusal = Refusal(ErrorCode.INVALID_REQUEST, text, text, text, text)
        reference = queue.enqueue(refusal, endpoint=text, at=it.clock.now)
        (decision,) = queue.drain()
        await it.write(lambda tx: tx.decisions.add(decision))
        assert await it.read(lambda tx: tx.decisions.find(reference)) == decision
        assert len(decision.received) <= 1_000

    run(tmp_path, story, database_url)


def test_background_tasks_of_the_server_run_periodically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_WRITE_EVERY", "_SWEEP_EVERY", "_KEYS_EVERY"):
        monkeypatch.setattr(module, name, 0.01)

    async def story(it: Harness) -> None:
        await _fill(it)
        it.clock.forward(days(90))
        counts = {"signing_keys": 3, "sessions": 0, "decisions": 0}

        async def done() -> bool:
            return await _counts(it, tuple(counts)) == counts

        await until_found(done)

    run(tmp_path, story)


def test_interrupted_bulk_revocation_continues_at_server_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SWEEP_EVERY", 3_600.0)

    async def story(it: Harness) -> None:
        ending = BulkRevocation(BulkRevocationKind.CLIENT, "gone", "disabled", by_cli("test"))
        await it.write(lambda tx: tx.bulk_revocations.add(ending, it.clock.now))
        queue, keys = ClientDecisionQueue(SYSTEM.random), it.foundation.services.keys
        maintenance = Maintenance(
            it.foundation.store, queue, keys, Runtime(lambda: it.clock.now, SYSTEM.random)
        )
        sweeping = asyncio.create_task(maintenance.sweep())
        await until_found(lambda: it.read(lambda tx: (tx.bulk_revocations.first() is None) or None))
        sweeping.cancel()

    run(tmp_path, story)
