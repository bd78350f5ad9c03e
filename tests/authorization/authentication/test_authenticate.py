"""Who has this password: right, wrong, too often, and what an outsider can learn of it."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import pbkdf2_hmac
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.support.harness import NOON, Harness
from tests.support.plain_browser import PASSWORD
from tests.support.visitors import ALICE, run
from valetkey.authorization.authentication.password import PasswordSignIn, is_current
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import LimitSettings, PasswordSettings
from valetkey.kernel import metrics
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.testing.server import QUICK_PASSWORDS
from valetkey.web.offload import Busy, Offload

LIMITS = LimitSettings(
    sign_in_failures=3, sign_in_failures_per_address=5, sign_in_window=minutes(3)
)
HOME = "192.0.2.7"


_OFFLOAD = Offload(2, 32)


@pytest.fixture(autouse=True, scope="module")
def _close_offload() -> Iterator[None]:
    yield
    _OFFLOAD.close()


def _password_sign_in(it: Harness) -> PasswordSignIn:
    return it.password_sign_in(_OFFLOAD)


async def attempt(
    it: Harness, name: str = "alice", word: str = PASSWORD, address: str = HOME
) -> User | Refusal:
    return await _password_sign_in(it).authenticate(name, word, address, it.clock.now)


@pytest.mark.parametrize("name", ["alice", "ALICE", " alice ", "alice@example.com"])
def test_any_spelling_of_username_or_email_address_signs_in(tmp_path: Path, name: str) -> None:
    async def story(it: Harness) -> None:
        assert await attempt(it, name) == ALICE
        assert await it.events() == []

    run(tmp_path, story)


def test_an_imported_hash_is_replaced_by_ours_at_the_first_sign_in(tmp_path: Path) -> None:
    salt = b"0123456789abcdef"
    digest = pbkdf2_hmac("sha256", PASSWORD.encode(), salt, 1_000, 32)
    words = (b64encode(part).decode().rstrip("=") for part in (salt, digest))
    imported = f"$pbkdf2-sha256$i=1000${'$'.join(words)}"

    async def story(it: Harness) -> None:
        uid = ALICE.uid
        await it.store.write(lambda tx: tx.users.set_password_hash(uid, "cr_1", imported, NOON))
        assert isinstance(await attempt(it, word="wrong password"), Refusal)
        assert await it.store.read(lambda tx: tx.users.password_hash(uid)) == imported
        assert await attempt(it) == ALICE
        renewed = await it.store.read(lambda tx: tx.users.password_hash(uid))
        assert is_current(str(renewed), QUICK_PASSWORDS)
        assert await attempt(it) == ALICE

    run(tmp_path, story)


def test_wrong_password_unknown_and_disabled_account_are_indistinguishable(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        closed = replace(ALICE, disabled_at=NOON)
        wrong = await attempt(it, word="wrong password")
        unknown = await attempt(it, name="nobody")
        assert await it.store.write(lambda tx: tx.users.change(closed))
        disabled = await attempt(it)
        assert isinstance(wrong, Refusal)
        assert wrong.code is ErrorCode.INVALID_GRANT
        assert wrong == unknown == disabled
        assert await it.events() == ["sign_in.failed"] * 3

    run(tmp_path, story)


@pytest.mark.parametrize("word", ["", "null", "undefined", PASSWORD + "\0", PASSWORD[:-1]])
def test_lg_13_invalid_passwords_are_refused(tmp_path: Path, word: str) -> None:
    async def story(it: Harness) -> None:
        assert isinstance(await attempt(it, word=word), Refusal)

    run(tmp_path, story)


@pytest.mark.parametrize("name", ["", "\0", "ali\0ce", "alice\0", "a" * 321, "\ud7ff\ufeff"])
def test_invalid_username_matches_no_account(tmp_path: Path, database_url: str, name: str) -> None:
    async def story(it: Harness) -> None:
        refused = await attempt(it, name)
        assert isinstance(refused, Refusal)
        assert refused.code is ErrorCode.INVALID_GRANT

    run(tmp_path, story, database_url)


def test_lg_15_all_names_of_an_account_share_one_counter(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for name in ("alice", "Alice@Example.com", " ALICE"):
            refused = await attempt(it, name, "wrong password")
            assert isinstance(refused, Refusal)
            assert refused.code is ErrorCode.INVALID_GRANT
        for name in ("alice", "alice@example.com"):
            # Even the right password is not looked at.
            waits = await attempt(it, name)
            assert isinstance(waits, Refusal)
            assert waits.code is ErrorCode.SLOW_DOWN
            assert waits.retry_after in {60, 61}
        assert isinstance(await attempt(it, "bob"), User)
        it.clock.forward(61)
        assert isinstance(await attempt(it), User)

    run(tmp_path, story, limits=LIMITS)


def test_addresses_of_one_network_share_a_failure_count(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        for number in range(5):
            await attempt(it, f"nobody{number}", "wrong password", f"198.51.100.{number}")
        waits = await attempt(it, "alice", PASSWORD, "198.51.100.250")
        assert isinstance(waits, Refusal)
        assert waits.code is ErrorCode.SLOW_DOWN
        assert isinstance(await attempt(it, "alice", PASSWORD, "198.51.101.1"), User)

    run(tmp_path, story, limits=LIMITS)


def test_failure_limits_stop_many_addresses_without_lockout_by_one(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        for _ in range(40):
            await attempt(it, "alice", "wrong password", "198.51.100.1")
        # What the stranger was refused does not count against anybody.
        assert isinstance(await attempt(it), User)
        codes: list[ErrorCode] = []
        for number in range(20):
            refusal = await attempt(it, "alice", "wrong password", f"203.0.{number}.1")
            assert isinstance(refusal, Refusal)
            codes.append(refusal.code)
        # Three from the stranger, twelve more: five times three.
        assert codes.count(ErrorCode.INVALID_GRANT) == 12
        assert codes[-1] is ErrorCode.SLOW_DOWN

    run(tmp_path, story, limits=replace(LIMITS, sign_in_failures_per_address=50))


def test_successful_sign_ins_do_not_count_towards_the_limit(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for _ in range(8):
            assert isinstance(await attempt(it), User)

    run(tmp_path, story, limits=LIMITS)


def test_parallel_guesses_are_counted_before_verification(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        guesses = [attempt(it, word=f"guess number {n}") for n in range(8)]
        codes = [r.code for r in await asyncio.gather(*guesses) if isinstance(r, Refusal)]
        assert codes.count(ErrorCode.INVALID_GRANT) == 3
        assert codes.count(ErrorCode.SLOW_DOWN) == 5

    run(tmp_path, story, limits=LIMITS)


def test_a_hash_of_old_parameters_is_renewed_at_the_next_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        dearer = replace(_password_sign_in(it), passwords=PasswordSettings(passes=3))
        before = await it.store.read(lambda tx: tx.users.password_hash(ALICE.uid))
        assert isinstance(await _again(dearer, it), User)
        after = await it.store.read(lambda tx: tx.users.password_hash(ALICE.uid))
        assert before != after
        assert "t=3" in (after or "")
        assert isinstance(await _again(dearer, it), User)
        assert after == await it.store.read(lambda tx: tx.users.password_hash(ALICE.uid))

    run(tmp_path, story)


async def _again(password: PasswordSignIn, it: Harness) -> User | Refusal:
    return await password.authenticate("alice", PASSWORD, HOME, it.clock.now)


def test_sign_in_is_rolled_back_if_the_following_step_fails(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def fail(tx: Transaction, user: User) -> None:
            raise LookupError(user.username)

        with pytest.raises(LookupError, match="alice"):
            await _password_sign_in(it).authenticate("alice", PASSWORD, HOME, it.clock.now, fail)

    run(tmp_path, story)


def change_password(tx: Transaction) -> None:
    tx.users.set_password_hash(ALICE.uid, "cr_new", "$argon2id$new", NOON)


def close_account(tx: Transaction) -> None:
    tx.users.change(replace(ALICE, disabled_at=NOON))


@pytest.mark.parametrize("meanwhile", [change_password, close_account])
def test_change_during_password_hashing_refuses_the_sign_in(
    tmp_path: Path, meanwhile: Callable[[Transaction], None]
) -> None:
    async def story(it: Harness) -> None:
        door = Event()
        with closing(Offload(1, 1)) as offload:
            other = asyncio.create_task(offload.run(door.wait))
            slow = replace(_password_sign_in(it), offload=offload)
            task = asyncio.create_task(_again(slow, it))
            await asyncio.sleep(0)
            await it.store.write(meanwhile)
            door.set()
            assert await other
            assert isinstance(await task, Refusal)
            assert await it.events() == ["sign_in.failed"]

    run(tmp_path, story)


def test_a_full_queue_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        door = Event()
        offload = Offload(1, 0)
        waiting = asyncio.create_task(offload.run(door.wait))
        await asyncio.sleep(0)
        before = it.store.engine.mark()
        with pytest.raises(Busy):
            await replace(_password_sign_in(it), offload=offload).authenticate(
                "alice", PASSWORD, HOME, it.clock.now
            )
        assert it.store.engine.mark() == before
        door.set()
        await waiting
        offload.close()

    run(tmp_path, story)


def test_sign_ins_refused_under_load_write_nothing_to_the_database(tmp_path: Path) -> None:
    def transactions() -> float:
        return sum(counts[-1] for _, counts in metrics.GROUP.samples())

    async def story(it: Harness) -> None:
        with closing(Offload(1, 2)) as offload:
            password = replace(_password_sign_in(it), offload=offload)
            before = transactions()
            burst = [
                password.authenticate(f"n{n}", PASSWORD, HOME, it.clock.now) for n in range(64)
            ]
            outcomes = await asyncio.gather(*burst, return_exceptions=True)
            assert sum(isinstance(outcome, Busy) for outcome in outcomes) == 61
            # Of the others each attempt, and each failure.
            assert transactions() - before == 6

    run(tmp_path, story)


def test_attempt_that_was_not_verified_under_load_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story(it: Harness) -> None:
        with closing(Offload(1, 1)) as offload, monkeypatch.context() as system:
            system.setattr(Thread, "start", refuse)
            busy = replace(_password_sign_in(it), limits=LIMITS, offload=offload)
            for _ in range(2 * LIMITS.sign_in_failures_per_address):
                with pytest.raises(Busy):
                    await busy.authenticate("alice", PASSWORD, HOME, it.clock.now)
        quiet = replace(_password_sign_in(it), limits=LIMITS)
        assert await quiet.authenticate("alice", PASSWORD, HOME, it.clock.now) == ALICE

    run(tmp_path, story)
