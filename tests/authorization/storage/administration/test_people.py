"""People are found by any part of a word, in every script, and by an index."""

from pathlib import Path

from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.users import START, Filter, UserCursor, search_words
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

LATER = Instant(NOON + 1)
NOOR = replace(
    ALICE,
    uid=Uid(2001),
    username="noor",
    email="noor.h@Schule.example",
    name="نور الهدى",
    created_at=LATER,
)
EMIL = replace(
    ALICE,
    uid=Uid(2002),
    username="EMIL",
    email="emil@example.com",
    name="Émil Zátopek-Straße",
    email_verified_at=NOON,
    disabled_at=NOON,
)


async def _found(it: Harness, text: str) -> set[int]:
    return {
        uid for _, uid in await it.store.scan(lambda tx: tx.user_directory.find(text, START, 100))
    }


async def _register(it: Harness, *users: User) -> None:
    for user in users:
        await it.store.write(lambda tx, user=user: tx.users.register(user))  # type: ignore[misc]


def test_user_search_matches_word_parts_ignoring_case_and_accents(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        await _register(it, NOOR, EMIL)
        for text, uids in (
            ("ali", {1001}),
            ("ALICE@EX", {1001}),
            ("liddell", {1001}),
            ("iddell", {1001}),
            ("idd", {1001}),
            ("ll", {1001}),
            ("دى", {2001}),
            ("xample.com", set[int]()),
            ("example.c", {1001, 1002, 2002}),
            ("الهد", {2001}),
            ("noor.h@schule", {2001}),
            ("@schule", {2001}),
            ("@example", {1001, 1002, 2002}),
            ("ém", {2002}),
            ("É", {2002}),
            ("emi", {2002}),
            ("STRASSE", {2002}),
            ("zát", {2002}),
            ("%", set[int]()),
            ("_", set[int]()),
            ("a" * 5_000, set[int]()),
        ):
            assert await _found(it, text) == uids, text

    run(tmp_path, story, database_url)


def test_search_words_change_with_the_user(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.users.change(replace(ALICE, name="Alice Hargreaves")))
        assert await _found(it, "liddell") == set()
        assert await _found(it, "hargr") == {1001}

        def gone(tx: Transaction) -> None:
            tx.db.run("DELETE FROM credentials WHERE uid = 1001")
            tx.db.run("DELETE FROM users WHERE uid = 1001")

        await it.store.write(gone)
        assert await _found(it, "hargr") == set()
        assert await _found(it, "") == {1002}

    run(tmp_path, story, database_url)


def test_unindexed_users_are_added_to_the_index_in_batches(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await _register(it, NOOR, EMIL)
        await it.store.write(lambda tx: tx.db.run("DELETE FROM people_words"))
        put = [await it.store.write(lambda tx: tx.user_directory.index_more(3)) for _ in range(3)]
        assert put == [3, 1, 0]
        for user in (ALICE, BOB, NOOR, EMIL):
            assert user.uid in await _found(it, user.username)

    run(tmp_path, story, database_url)


def test_search_pages_continue_without_gap_or_repetition(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _register(it, NOOR, EMIL)
        whole = await it.store.scan(lambda tx: tx.user_directory.find("", START, 100))
        assert len(whole) == sum(
            len(search_words(u.username, u.email, u.name)) for u in (ALICE, BOB, NOOR, EMIL)
        )
        cursor = START
        entries: list[tuple[str, Uid]] = []
        while page := await it.store.scan(lambda tx: tx.user_directory.find("", cursor, 2)):  # noqa: B023
            entries += page
            cursor = UserCursor(*page[-1])
        assert entries == whole

    run(tmp_path, story, database_url)


def test_newest_users_are_listed_first_and_filters_apply(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _register(it, NOOR, EMIL)
        await it.store.write(lambda tx: tx.user_directory.set_role(BOB.uid, Role.AUDITOR, NOON))
        far = Instant(NOON + 10)

        async def newest(chosen: Filter) -> list[int]:
            return list(
                await it.store.scan(lambda tx: tx.user_directory.newest(chosen, far, 0, 10))
            )

        assert await newest(Filter.ALL) == [2001, 2002, 1002, 1001]
        assert await newest(Filter.DISABLED) == [2002]
        assert await newest(Filter.ROLE) == [1002]
        assert await newest(Filter.UNVERIFIED) == [2001, 1002, 1001]
        rest = await it.store.scan(lambda tx: tx.user_directory.newest(Filter.ALL, NOON, 1002, 10))
        assert list(rest) == [1001]
        assert await it.store.scan(lambda tx: tx.user_directory.count_matching(Filter.ALL, 3)) == 3

    run(tmp_path, story, database_url)


def test_stale_user_record_does_not_restore_a_withdrawn_role(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: tx.user_directory.set_role(ALICE.uid, Role.SUPPORT, NOON))
        read = await it.store.read(lambda tx: tx.users.find(ALICE.uid))
        assert read is not None
        assert read.role is Role.SUPPORT
        await it.store.write(lambda tx: tx.user_directory.set_role(ALICE.uid, None, NOON))
        await it.store.write(lambda tx: tx.users.change(read))
        after = await it.store.read(lambda tx: tx.users.find(ALICE.uid))
        assert after is not None
        assert after.role is None

    run(tmp_path, story, database_url)


_SEARCH = (
    "SELECT word, uid FROM people_words WHERE (word, uid) > (:word, :uid) AND word < :end"
    " ORDER BY word, uid LIMIT :limit"
)
_NEWEST = (
    "SELECT uid FROM users WHERE (created_at, uid) < (:before, :before_uid)"
    " ORDER BY created_at DESC, uid DESC LIMIT :limit"
)


def test_user_search_uses_an_index_and_no_temporary_sort(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        values = {"word": "a", "uid": 1, "end": "b", "before": 1, "before_uid": 1, "limit": 9}
        for statement in (_SEARCH, _NEWEST):
            names = {name: value for name, value in values.items() if f":{name}" in statement}
            sql = f"EXPLAIN QUERY PLAN {statement}"
            plan = await it.store.read(lambda tx, sql=sql, names=names: tx.db.rows(sql, **names))  # type: ignore[misc]
            plan_text = " ".join(str(row[-1]) for row in plan)
            assert "SEARCH" in plan_text, plan_text
            assert "TEMP B-TREE" not in plan_text, plan_text

    run(tmp_path, story)
