"""Invitations and registrations, on each engine: who may spend, who ends, what is found."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint
from valetkey.testing.storage_conformance import LATER, NOW, THREADS, Memory

_TOKEN, _LOOKS = Fingerprint("token"), Fingerprint("looks")
_FIVE = InitialAccessToken("in_1", "five", 5, NOW, LATER)


@pytest.fixture
def memory(database_url: str, tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(database_url, tmp_path)
    memory.write(lambda tx: tx.invitations.issue(_TOKEN, _FIVE))
    memory.write(lambda tx: tx.registrations.add("printer", _TOKEN, _LOOKS, NOW))
    yield memory
    memory.close()


def test_parallel_uses_of_an_invitation_do_not_exceed_its_limit(memory: Memory) -> None:
    results = memory.contend(lambda tx, _: tx.invitations.spend(_TOKEN, NOW))
    assert sorted(results) == [False] * (THREADS - 5) + [True] * 5
    assert not memory.read(lambda tx: tx.invitations.is_live(_TOKEN, NOW))
    assert memory.read(lambda tx: tx.invitations.usable(NOW)) == []
    assert memory.write(lambda tx: tx.invitations.sweep(NOW, 10)) == 1


def test_an_invitation_lives_until_it_expires_or_is_withdrawn(memory: Memory) -> None:
    assert memory.read(lambda tx: tx.invitations.usable(NOW)) == [_FIVE]
    assert memory.read(lambda tx: tx.invitations.is_live(_TOKEN, NOW))
    assert not memory.read(lambda tx: tx.invitations.is_live(_TOKEN, LATER))
    assert not memory.write(lambda tx: tx.invitations.spend(_TOKEN, LATER))
    assert not memory.read(lambda tx: tx.invitations.is_live(Fingerprint("other"), NOW))
    assert memory.write(lambda tx: tx.invitations.sweep(NOW, 10)) == 0
    results = memory.contend(lambda tx, _: tx.invitations.withdraw("in_1"))
    assert sorted(results) == [False] * (THREADS - 1) + [True]
    assert not memory.write(lambda tx: tx.invitations.spend(_TOKEN, NOW))


def test_a_registration_ends_once(memory: Memory) -> None:
    results = memory.contend(lambda tx, _: tx.registrations.end("printer", NOW))
    assert sorted(results) == [False] * (THREADS - 1) + [True]
    assert memory.read(lambda tx: tx.registrations.token_of("printer")) is None
    assert memory.read(lambda tx: tx.registrations.unused_alike(_LOOKS)) == []
    assert not memory.write(lambda tx: tx.registrations.adopt("printer", NOW))


def test_used_registration_ends_neither_as_unused_nor_as_idle(memory: Memory) -> None:
    late = Instant(NOW + days(1))

    def unused_and_idle(tx: Transaction) -> tuple[list[str], list[str]]:
        alike, idle = tx.registrations.unused_alike(_LOOKS), tx.registrations.idle(NOW, 10)
        assert all(since == NOW for _, since in alike)
        return [client_id for client_id, _ in alike], list(idle)

    assert memory.read(unused_and_idle) == (["printer"], ["printer"])
    memory.write(lambda tx: tx.registrations.note_use("printer", late))
    assert memory.read(unused_and_idle) == ([], [])
    assert not memory.write(lambda tx: tx.registrations.end_unused("printer", late))
    assert not memory.write(lambda tx: tx.registrations.end_idle("printer", NOW, late))
    assert memory.write(lambda tx: tx.registrations.end_idle("printer", late, late))


def test_use_of_a_registration_is_recorded_once_a_day(memory: Memory) -> None:
    def active_at(tx: Transaction) -> int:
        row = tx.db.row("SELECT active_at FROM registrations WHERE client_id = 'printer'")
        assert row is not None
        return int(row[0])

    for at, noted in ((NOW + 5, NOW + 5), (NOW + 6, NOW + 5), (NOW + days(1) + 5,) * 2):
        memory.write(partial(_use, Instant(at)))
        assert memory.read(active_at) == noted


def _use(at: Instant, tx: Transaction) -> None:
    tx.registrations.note_use("printer", at)


def test_rows_of_a_removed_client_are_deleted(memory: Memory) -> None:
    memory.write(lambda tx: tx.registrations.end("printer", NOW))
    assert memory.read(lambda tx: tx.registrations.removed(Instant(NOW - 1), 10)) == []
    assert memory.read(lambda tx: tx.registrations.removed(NOW, 10)) == ["printer"]
    memory.write(lambda tx: tx.bulk_revocations.delete_rows("printer", 1_000))
    memory.write(lambda tx: tx.clients.remove("printer", NOW))
    assert memory.read(lambda tx: tx.clients.find("printer")) is None
    assert memory.read(lambda tx: tx.grants.find("gr_1")) is None
    assert memory.read(lambda tx: tx.clients.was_removed("printer"))
    assert memory.read(lambda tx: tx.registrations.removed(NOW, 10)) == []
