"""Signing keys rotate by themselves, are known before they sign, and outlive what they signed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from valetkey.authorization.app.foundation import SCHEMA
from valetkey.authorization.model.event.event import SYSTEM as BY_SYSTEM
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.storage.signing_keys import KeyState
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.signing_keys import KeyPlan, NoSigningKey, SigningKeyRing
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days, hours
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

NOON = Instant(1_800_000_000)
PLAN = KeyPlan(days(90), days(1))
_USUAL = (Algorithm.ES256,)


@dataclass
class Keys:
    """A database, and as many processes on it as a test wants."""

    url: str
    directory: Path
    keyring: Keyring
    stores: list[Store]

    def ring(
        self, keyring: Keyring | None = None, algorithms: tuple[Algorithm, ...] = _USUAL
    ) -> SigningKeyRing:
        """The keys as one more process sees them."""
        store = Store(connect(self.url, directory=self.directory), SYSTEM.random)
        self.stores.append(store)
        plan = replace(PLAN, algorithms=algorithms)
        return SigningKeyRing(store, (keyring or self.keyring).sealer, plan, SYSTEM.random)

    async def events(self) -> list[str]:
        page = await self.stores[0].read(lambda tx: tx.events.page(Instant(0), "", 100))
        return sorted(event.name.removeprefix("signing_key.") for event in page)

    async def states(self, now: Instant, algorithm: Algorithm = Algorithm.ES256) -> list[KeyState]:
        """Where each published key of this algorithm stands."""
        records = await self.stores[0].read(lambda tx: tx.signing_keys.all(now))
        return [record.state(now) for record in records if record.algorithm == algorithm]


@asynccontextmanager
async def _keys(url: str, directory: Path) -> AsyncGenerator[Keys]:
    it = Keys(url, directory, Keyring.fresh(SYSTEM.random), [])
    it.ring()
    await migrate(it.stores[0].engine, SCHEMA)
    try:
        yield it
    finally:
        for store in it.stores:
            await store.engine.close()


def run(url: str, directory: Path, story: Callable[[Keys], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with _keys(url, directory) as it:
            await story(it)

    asyncio.run(tell())


def _kids(ring: SigningKeyRing, now: Instant) -> set[str]:
    return {str(key["kid"]) for key in _document(ring, now)}


def _document(ring: SigningKeyRing, now: Instant) -> list[dict[str, object]]:
    keys: list[dict[str, object]] = json.loads(ring.published(now).document())["keys"]
    return keys


def test_signing_before_keys_are_issued_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring()
        with pytest.raises(NoSigningKey, match="no signing key for ES256 yet"):
            ring.current(NOON)
        assert _document(ring, NOON) == []
        await ring.maintain(NOON)
        assert await it.states(NOON) == [KeyState.CURRENT, KeyState.NEXT]
        assert await it.events() == ["issued", "issued"]
        await ring.maintain(NOON)
        assert await it.events() == ["issued", "issued"]

    run(sqlite_url, tmp_path, story)


def test_parallel_signers_use_the_same_first_key(postgres_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        await it.ring().maintain(NOON)
        ring = it.ring()

        async def sign() -> str:
            await ring.refresh_each_second(NOON)
            return ring.current(NOON).kid

        assert len(set(await asyncio.gather(*(sign() for _ in range(64))))) == 1

    run(postgres_url, tmp_path, story)


def test_keys_rotate_automatically_and_are_published_before_they_sign(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring()
        now, signed_at = NOON, dict[str, Instant]()
        seen: dict[str, Instant] = {}
        last_signed: dict[str, Instant] = {}
        while now < NOON + days(400):
            await ring.maintain(now)
            for kid in _kids(ring, now):
                seen.setdefault(kid, now)
            kid = ring.current(now).kid
            signed_at.setdefault(kid, now)
            last_signed[kid] = now
            for earlier, at in last_signed.items():
                # No token lives longer than a day.
                assert earlier in _kids(ring, now) or at < now - days(1)
            now = Instant(now + hours(5))
        assert len(signed_at) == 5
        first, *rest = signed_at
        assert seen[first] == signed_at[first] == NOON
        for kid in rest:
            assert signed_at[kid] >= seen[kid] + PLAN.publication
        assert await it.events() == ["issued"] * 6 + ["retired"] * 4
        assert await it.states(now) == [KeyState.CURRENT, KeyState.NEXT]

    run(sqlite_url, tmp_path, story)


def test_server_that_missed_rotations_has_current_and_next_key(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        await it.ring().maintain(NOON)
        later = Instant(NOON + days(1_000))
        ring = it.ring()
        await ring.maintain(later)
        assert await it.states(later) == [KeyState.CURRENT, KeyState.NEXT]
        assert ring.current(later).kid in _kids(ring, later)

    run(sqlite_url, tmp_path, story)


def test_processes_started_in_parallel_create_each_key_once(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        for now in (NOON, Instant(NOON + days(90)), Instant(NOON + days(180))):
            rings = [it.ring() for _ in range(4)]
            await asyncio.gather(*(ring.maintain(now) for ring in rings))
            assert len({ring.current(now).kid for ring in rings}) == 1
        assert await it.events() == ["issued"] * 4 + ["retired"] * 2
        assert await it.states(Instant(NOON + days(180))) == [
            KeyState.RETIRING,
            KeyState.CURRENT,
            KeyState.NEXT,
        ]

    run(database_url, tmp_path, story)


def test_rotation_waits_until_the_next_key_was_published(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring, other = it.ring(), it.ring()
        await ring.maintain(NOON)
        before = ring.current(NOON).kid
        soon = Instant(NOON + hours(1))
        await ring.rotate(soon, done_by=BY_SYSTEM)
        assert ring.current(soon).kid == before
        next_day = Instant(NOON + days(1))
        await other.refresh(next_day)
        assert other.current(Instant(next_day - 1)).kid == before
        after = other.current(next_day).kid
        assert after != before
        await other.maintain(next_day)
        assert await it.events() == ["issued"] * 3 + ["retired"]
        # From now on the next key is known: it may sign as soon as somebody asks.
        later = Instant(next_day + days(2))
        await other.rotate(later, done_by=BY_SYSTEM)
        assert other.current(later).kid != after

    run(sqlite_url, tmp_path, story)


def test_rotation_is_refused_at_500_published_keys(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring()
        await ring.maintain(NOON)
        first = (await it.stores[0].read(lambda tx: tx.signing_keys.all(NOON)))[0]

        def fill(tx: Transaction) -> None:
            for number in range(2, 499):
                kid = f"{number:043d}"
                key = json.dumps({**json.loads(first.public_jwk), "kid": kid})
                tx.signing_keys.issue(
                    replace(first, kid=kid, period=number, public_jwk=key, retires_at=NOON)
                )

        await it.stores[0].write(fill, done_by=USUAL_ACTOR)
        await ring.rotate(NOON, at_once=True, done_by=BY_SYSTEM)
        signing = ring.current(NOON).kid
        with pytest.raises(Refused, match="500 keys are published"):
            await ring.rotate(NOON, at_once=True, done_by=BY_SYSTEM)
        assert ring.current(NOON).kid == signing
        document = ring.published(NOON).document()
        assert len(KeySet.parse(document, ignore_unknown=True, of_issuer=True)) == 500
        # A leaked key is still withdrawn, and leaves room for its successor.
        assert await ring.withdraw(signing, NOON, done_by=BY_SYSTEM)
        assert ring.current(NOON).kid != signing

    run(sqlite_url, tmp_path, story)


def test_leaked_key_stops_signing_even_in_its_first_second(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring, other = it.ring(), it.ring()
        await ring.maintain(NOON)
        used: list[str] = [ring.current(NOON).kid]
        for _ in range(8):
            await ring.rotate(NOON, at_once=True, done_by=BY_SYSTEM)
            await other.refresh(NOON)
            assert other.current(NOON).kid == ring.current(NOON).kid
            assert ring.current(NOON).kid not in used
            used.append(ring.current(NOON).kid)
        assert set(used) < _kids(other, NOON)
        gone = Instant(NOON + days(2))
        await other.maintain(gone)
        assert _kids(other, gone).isdisjoint(used[:-1])
        assert used[-1] in _kids(other, gone)

    run(sqlite_url, tmp_path, story)


def test_small_clock_differences_issue_no_additional_keys(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ahead, behind = it.ring(), it.ring()
        await ahead.maintain(Instant(NOON + 10))
        await behind.maintain(NOON)
        assert behind.current(NOON).kid == ahead.current(Instant(NOON + 10)).kid
        assert await it.events() == ["issued", "issued"]

    run(sqlite_url, tmp_path, story)


def test_wrong_keyring_cannot_decrypt_or_issue_keys(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        await it.ring().maintain(NOON)
        stranger = it.ring(Keyring.fresh(SYSTEM.random))
        for now in (NOON, Instant(NOON + days(90)), Instant(NOON + days(900))):
            with pytest.raises(NoSigningKey, match="does not open"):
                await stranger.maintain(now)
            with pytest.raises(NoSigningKey, match="does not open"):
                await stranger.rotate(now, at_once=True, done_by=BY_SYSTEM)
        assert await it.events() == ["issued", "issued"]

    run(sqlite_url, tmp_path, story)


def test_resealed_keys_are_decrypted_with_the_new_keyring(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring()
        await ring.maintain(NOON)
        newer = it.keyring.with_new_sealing_key(SYSTEM.random)

        def reseal(tx: Transaction) -> list[bool]:
            done: list[bool] = []
            for record in tx.signing_keys.all(NOON):
                context = f"signing_keys.sealed:{record.kid}"
                plain = it.keyring.sealer.open(record.sealed, context)
                assert plain is not None
                sealed = newer.sealer.seal(plain, context, SYSTEM.random)
                done.append(tx.signing_keys.reseal(record.kid, record.sealed, sealed))
                done.append(tx.signing_keys.reseal(record.kid, record.sealed, sealed))
            return done

        assert await it.stores[0].write(reseal, done_by=USUAL_ACTOR) == [True, False] * 2
        other = it.ring(newer)
        await other.maintain(NOON)
        assert other.current(NOON).kid == ring.current(NOON).kid
        # A server that was not started again has its keys, and neither stops nor spoils anything.
        later = Instant(NOON + days(90))
        for now in (NOON, later):
            await ring.maintain(now)
            assert ring.current(now).kid == other.current(now).kid
        await it.ring(newer).maintain(later)

    run(sqlite_url, tmp_path, story)


def test_withdrawn_key_is_unpublished_and_the_next_key_signs(
    sqlite_url: str, tmp_path: Path
) -> None:
    async def story(it: Keys) -> None:
        ring, other = it.ring(), it.ring()
        await ring.maintain(NOON)
        leaked = ring.current(NOON).kid
        assert await ring.withdraw(leaked, NOON, done_by=BY_SYSTEM)
        assert not await ring.withdraw(leaked, NOON, done_by=BY_SYSTEM)
        assert not await ring.withdraw("no such key", NOON, done_by=BY_SYSTEM)
        await other.refresh(NOON)
        assert leaked not in _kids(other, NOON)
        assert other.current(NOON).kid != leaked
        assert await it.states(NOON) == [KeyState.CURRENT, KeyState.NEXT]
        (upcoming,) = _kids(other, NOON) - {other.current(NOON).kid}
        assert await ring.withdraw(upcoming, NOON, done_by=BY_SYSTEM)
        assert await it.states(NOON) == [KeyState.CURRENT, KeyState.NEXT]
        assert (await it.events()).count("withdrawn") == 2

    run(sqlite_url, tmp_path, story)


def test_retired_key_never_signs_again(sqlite_url: str, tmp_path: Path) -> None:
    async def story(it: Keys) -> None:
        ring = it.ring()
        await ring.maintain(NOON)
        used = [ring.current(NOON).kid]
        await ring.rotate(NOON, at_once=True, done_by=BY_SYSTEM)
        for kid in [ring.current(NOON).kid, *_kids(ring, NOON), *_kids(ring, NOON)]:
            if kid not in used:
                used.append(kid)
                await ring.withdraw(kid, NOON, done_by=BY_SYSTEM)
            assert ring.current(NOON).kid not in used
            assert (await it.states(NOON)).count(KeyState.CURRENT) == 1
            assert (await it.states(NOON)).count(KeyState.NEXT) == 1
            await it.stores[0].write(
                lambda tx: tx.signing_keys.sweep(NOON, 100), done_by=USUAL_ACTOR
            )

    run(sqlite_url, tmp_path, story)
