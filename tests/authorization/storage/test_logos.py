"""Copies of logos, on each engine: who fetches, whose copy stays, and what a race leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from valetkey.authorization.background.logos import drop_unshown
from valetkey.authorization.storage.images import PendingLogo
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint
from valetkey.testing.storage_conformance import LATER, NOW, THREADS, Memory, client

URI = "https://app.example/logo.png"
PRINTER = client()
WANTED = PendingLogo(PRINTER.id, URI, 1)


@pytest.fixture
def memory(database_url: str, tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(database_url, tmp_path)
    memory.write(lambda tx: tx.clients.change(replace(PRINTER, logo_uri=URI)))
    yield memory
    memory.close()


def test_logo_fetch_is_leased_to_one_of_many_processes(memory: Memory) -> None:
    assert memory.read(lambda tx: tx.logos.is_any_due(NOW))
    leases = memory.contend(lambda tx, _: list(tx.logos.lease(NOW, LATER, 10)))
    assert sorted(map(len, leases)) == [0] * (THREADS - 1) + [1]
    assert [logo for some in leases for logo in some] == [WANTED]
    assert not memory.read(lambda tx: tx.logos.is_any_due(NOW))


def test_first_copy_of_a_logo_is_stored_and_none_of_another_source(memory: Memory) -> None:
    other = replace(WANTED, source="https://app.example/other.png")
    assert not memory.write(lambda tx: tx.logos.store(other, "other", b"other"))
    kept = memory.contend(lambda tx, n: tx.logos.store(WANTED, f"name{n}", b"%d" % n))
    assert sum(kept) == 1
    winner = kept.index(True)
    assert memory.read(lambda tx: tx.logos.image(f"name{winner}")) == b"%d" % winner
    printer = memory.read(lambda tx: tx.clients.find(PRINTER.id))
    assert printer is not None
    assert printer.logo == f"name{winner}"
    # Nothing is undone by an attempt that comes late.
    assert not memory.write(lambda tx: tx.logos.fail(WANTED, "late", None))
    assert not memory.write(lambda tx: tx.logos.drop(WANTED))
    assert not memory.write(lambda tx: tx.logos.retry(PRINTER.id, NOW))


def test_client_verified_during_the_cleanup_keeps_its_logo(memory: Memory) -> None:
    prints = Fingerprint("token"), Fingerprint("looks")
    memory.write(lambda tx: tx.registrations.add(PRINTER.id, *prints, NOW))

    def race(tx: Transaction, number: int) -> None:
        if number % 2:
            tx.clients.verify(PRINTER.id, NOW)
        else:
            drop_unshown(tx, WANTED)

    for _ in range(8):
        memory.write(lambda tx: tx.clients.unverify(PRINTER.id))
        memory.write(lambda tx: tx.logos.enqueue(PRINTER.id))
        memory.contend(race)
        assert memory.read(lambda tx: tx.logos.is_any_due(NOW))


def test_removed_client_leaves_no_image(memory: Memory) -> None:
    assert memory.write(lambda tx: tx.logos.store(WANTED, "name", b"image"))
    memory.write(lambda tx: tx.bulk_revocations.delete_rows(PRINTER.id, 1_000))
    memory.write(lambda tx: tx.clients.remove(PRINTER.id, NOW))
    assert memory.read(lambda tx: tx.logos.image("name")) is None
