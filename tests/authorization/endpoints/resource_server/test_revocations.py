"""The feed of what must be refused although its signature is good."""

from pathlib import Path

from tests.support.cases import case
from tests.support.harness import Harness, run
from valetkey.authorization.endpoints.resource_server import OVERLAP, PAGE
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days


async def _subjects(it: Harness, after: str = "") -> tuple[list[str], str]:
    answer = await it.feed(after)
    assert answer.status == 200, answer.body
    revocations = answer.json["revocations"]
    assert isinstance(revocations, list)
    return [revocation["id"] for revocation in revocations], answer.text("cursor")


def test_feed_misses_nothing_and_repeats_the_overlap(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert await _subjects(it) == ([], str(it.clock.now - OVERLAP))
        await it.write(lambda tx: tx.revocations.add(RevokedKind.TOKEN, "one", it.clock.now))
        ids, cursor = await _subjects(it)
        assert ids == ["one"]
        it.clock.forward(OVERLAP)
        assert (await _subjects(it, cursor))[0] == ["one"]
        # A transaction that began before and was slow to commit.
        slow = it.clock.now - OVERLAP + 1
        await it.write(lambda tx: tx.revocations.add(RevokedKind.GRANT, "two", slow))  # type: ignore[arg-type]
        ids, cursor = await _subjects(it, cursor)
        assert ids == ["one", "two"]
        it.clock.forward(OVERLAP + 2)
        _, cursor = await _subjects(it, cursor)
        assert await _subjects(it, cursor) == ([], cursor)

    run(tmp_path, story)


def test_feed_longer_than_a_page_lists_each_revocation_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def work(tx: Transaction) -> None:
            for number in range(2 * PAGE + 1):
                tx.revocations.add(RevokedKind.TOKEN, f"at_{number:05}", it.clock.now)

        await it.write(work)
        heard: list[str] = []
        cursor = ""
        for _ in range(3):
            ids, cursor = await _subjects(it, cursor)
            heard += ids
        assert heard == [f"at_{number:05}" for number in range(2 * PAGE + 1)]
        assert cursor == str(it.clock.now - OVERLAP)

    run(tmp_path, story)


def test_entry_has_kind_id_time_of_revocation_and_expiry(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.write(lambda tx: tx.revocations.add(RevokedKind.CLIENT, "web", it.clock.now))
        assert (await it.feed()).json["revocations"] == [
            {
                "kind": "client",
                "id": "web",
                "revoked_at": it.clock.now,
                "expires_at": it.clock.now + days(2),
            }
        ]

    run(tmp_path, story)


_INVALID_CURSORS: tuple[str, ...] = (
    "x",
    "-1",
    "1.",
    "1.token",
    "1.token.",
    "1.token.a b",
    "9" * 13,
    "9" * 400,
    "1_0",
    "²",
    " 1",
)


def test_invalid_cursor_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for cursor in _INVALID_CURSORS:
            with case(cursor):
                (await it.feed(cursor)).refused(400, "invalid_request")

    run(tmp_path, story)


def test_largest_cursor_returns_no_revocations(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert (await _subjects(it, "9" * 12))[0] == []
        assert (await it.feed("9" * 12 + ".token.~")).status == 200

    run(tmp_path, story)


def test_revocation_by_a_server_with_a_slow_clock_is_not_missed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, cursor = await _subjects(it)
        # As another server writes it, whose clock may be as wrong as S30 lets it.
        behind = Instant(it.clock.now - 60)
        await it.write(lambda tx: tx.revocations.add(RevokedKind.GRANT, "gr_1", behind))
        assert (await _subjects(it, cursor))[0] == ["gr_1"]

    run(tmp_path, story)
