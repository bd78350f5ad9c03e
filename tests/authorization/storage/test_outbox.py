"""The outbox, on each engine: who gets a delivery, for how long, and what a killed one leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from valetkey.authorization.model.email import EmailKind, QueuedEmail
from valetkey.authorization.model.user import Delivery, DeliveryKind, Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.testing.storage_conformance import LATER, NOW, THREADS, Memory

ONE = Delivery(
    "lt_1", DeliveryKind.LOGOUT, "printer", "se_1", Uid(1001), 0, NOW, NOW, Instant(NOW + 600)
)


@pytest.fixture
def memory(database_url: str, tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(database_url, tmp_path)
    memory.write(lambda tx: tx.deliveries.add(ONE))
    yield memory
    memory.close()


def test_delivery_is_leased_unchanged_to_one_of_many_processes(
    memory: Memory,
) -> None:
    leases = memory.contend(lambda tx, _: list(tx.deliveries.lease(NOW, LATER, 10)))
    assert sorted(map(len, leases)) == [0] * (THREADS - 1) + [1]
    assert [delivery for some in leases for delivery in some] == [
        replace(ONE, attempts=1, due_at=LATER)
    ]


def test_delivery_is_leased_again_after_its_lease_expires(memory: Memory) -> None:
    memory.write(lambda tx: tx.deliveries.lease(NOW, LATER, 10))
    almost = Instant(LATER - 1)
    assert not memory.write(lambda tx: tx.deliveries.lease(almost, LATER, 10))
    assert not memory.read(lambda tx: tx.deliveries.is_any_due(almost))
    assert memory.read(lambda tx: tx.deliveries.is_any_due(LATER))
    (again,) = memory.write(lambda tx: tx.deliveries.lease(LATER, Instant(LATER + 1), 10))
    assert again.attempts == 2


def test_parallel_processes_lease_no_delivery_twice(memory: Memory) -> None:
    def forty_more(tx: Transaction) -> None:
        for number in range(2, 42):
            tx.deliveries.add(replace(ONE, id=f"lt_{number}"))

    memory.write(forty_more)
    leases = memory.contend(
        lambda tx, _: [delivery.id for delivery in tx.deliveries.lease(NOW, LATER, 3)]
    )
    delivery_ids = [delivery_id for some in leases for delivery_id in some]
    assert len(delivery_ids) == len(set(delivery_ids))
    assert all(len(some) <= 3 for some in leases)


def test_longest_due_delivery_is_leased_first(memory: Memory) -> None:
    older = replace(ONE, id="lt_0", due_at=Instant(NOW - 5))
    memory.write(lambda tx: tx.deliveries.add(older))
    assert [d.id for d in memory.write(lambda tx: tx.deliveries.lease(NOW, LATER, 1))] == ["lt_0"]


def test_deliveries_of_one_session_can_be_leased_separately(memory: Memory) -> None:
    memory.write(lambda tx: tx.deliveries.add(replace(ONE, id="lt_2", session_id="se_2")))
    leased = memory.write(lambda tx: tx.deliveries.lease_of_session("se_2", NOW, LATER))
    assert [delivery.id for delivery in leased] == ["lt_2"]
    assert not memory.write(lambda tx: tx.deliveries.lease_of_session("se_2", NOW, LATER))
    assert [d.id for d in memory.write(lambda tx: tx.deliveries.lease(NOW, LATER, 9))] == ["lt_1"]


def test_expired_lease_cannot_postpone_the_delivery(memory: Memory) -> None:
    (slow,) = memory.write(lambda tx: tx.deliveries.lease(NOW, LATER, 1))
    (next_,) = memory.write(lambda tx: tx.deliveries.lease(LATER, Instant(LATER + 9), 1))
    assert not memory.write(lambda tx: tx.deliveries.postpone(slow, NOW))
    assert not memory.read(lambda tx: tx.deliveries.is_any_due(LATER))
    assert memory.write(lambda tx: tx.deliveries.postpone(next_, LATER))
    assert memory.read(lambda tx: tx.deliveries.is_any_due(LATER))


def test_a_delivery_is_finished_once(memory: Memory) -> None:
    results = memory.contend(lambda tx, _: tx.deliveries.finish("lt_1"))
    assert sorted(results) == [False] * (THREADS - 1) + [True]
    assert memory.read(lambda tx: tx.deliveries.waiting()) == 0
    assert not memory.write(lambda tx: tx.deliveries.postpone(ONE, NOW))


def test_entries_queued_by_the_previous_version_are_moved_once(memory: Memory) -> None:
    def queue(tx: Transaction) -> None:
        tx.db.run(
            "INSERT INTO mails (id, kind, uid, sealed, attempts, due_at, created_at, expires_at)"
            " VALUES ('ml_1', 'test', 1001, 'sealed', 2, :now, :now, :until)",
            now=NOW,
            until=LATER,
        )
        tx.db.run(
            "INSERT INTO deliveries (id, kind, client_id, session_id, uid, attempts, due_at,"
            " created_at, expires_at)"
            " VALUES ('lt_2', 'logout', 'printer', 'se_1', 1001, 0, :now, :now, :until)",
            now=NOW,
            until=Instant(NOW + 600),
        )

    memory.write(queue)
    memory.contend(lambda tx, _: tx.outbox.adopt(10))
    assert memory.write(lambda tx: tx.outbox.adopt(10)) == 0
    mail = QueuedEmail("ml_1", EmailKind.TEST, Uid(1001), "sealed", 3, LATER, NOW, LATER)
    assert memory.write(lambda tx: tx.mails.lease(NOW, LATER, 9)) == [mail]
    leased = memory.write(lambda tx: tx.deliveries.lease(NOW, LATER, 9))
    assert {delivery.id: delivery for delivery in leased} == {
        id_: replace(ONE, id=id_, attempts=1, due_at=LATER) for id_ in ("lt_1", "lt_2")
    }
