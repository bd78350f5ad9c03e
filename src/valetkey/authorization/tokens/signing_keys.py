"""Signing keys: for each algorithm one current, one published next, and retiring ones.

Algorithms are independent of each other; one document publishes all of their keys.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from msgspec import Struct

from valetkey.authorization.model.event.administration import (
    SigningKeyIssued,
    SigningKeyRetired,
    SigningKeyWithdrawn,
)
from valetkey.authorization.model.event.event import USUAL_ACTOR, DoneBy
from valetkey.authorization.storage.revision import revision, touch
from valetkey.authorization.storage.signing_keys import SigningKeyRecord
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, PublicKey, SigningKey
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, Lifetime, days, later
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import FilledText, translatable


class PublishedKeys(NamedTuple):
    """The key set valid from `since` until before `until`."""

    keys: KeySet
    since: float
    until: float


def published_keys(records: Iterable[SigningKeyRecord], now: Instant) -> PublishedKeys:
    """Return the keys that are not removed at `now`: next, current and retiring ones."""
    every = list(records)
    ends = [record.removed_at for record in every if record.removed_at is not None]
    live = (r for r in every if r.removed_at is None or r.removed_at > now)
    return PublishedKeys(
        KeySet.of(*(PublicKey.parse(record.public_jwk) for record in live)),
        max((end for end in ends if end <= now), default=float("-inf")),
        min((end for end in ends if end > now), default=float("inf")),
    )


PURPOSE = "access"
_PUBLISHED_AFTER = days(2)
"""A key stays published until its last token has expired: a day, plus a day of reserve."""


_MOST = 500
"""Number of published keys at which no key is rotated: apps and APIs read a bounded document."""

ALGORITHM = Algorithm.ES256
"""Default algorithm, for access tokens and wherever nothing else was chosen."""

_SLOW = (Algorithm.RS256, Algorithm.PS256)
"""Algorithms whose keys take as long to generate as a hundred requests."""

_TOO_MANY = Refused.because(
    ErrorCode.CONFLICT,
    FilledText(
        translatable(
            "%(most)s keys are published, each for two days after its last signature: withdraw "
            "keys, or wait"
        ),
        most=_MOST,
    ),
    "keys.many",
).refusal

_Records = Mapping[str, Sequence[SigningKeyRecord]]
_NO_RECORDS: Sequence[SigningKeyRecord] = ()


class NoSigningKey(LookupError):
    """There is no signing key: none exists yet, or the keyring cannot decrypt it."""


class KeyPlan(Struct, frozen=True):
    """The schedule of keys: time in use, time published before that, and algorithms."""

    lifetime: Lifetime
    publication: Lifetime
    algorithms: tuple[Algorithm, ...] = (ALGORITHM,)


class SigningKeyRing:
    """The signing keys known to this process, read again when any process changes them."""

    def __init__(
        self, store: Store, sealer: Sealer, plan: KeyPlan, random: Callable[[int], bytes]
    ) -> None:
        """Start without keys; `refresh` or `maintain` reads them."""
        self._store = store
        self._sealer = sealer
        self._plan = plan
        self._random = random
        self._records: _Records = {}
        self._opened: dict[str, SigningKey] = {}
        self._signs: dict[Algorithm, tuple[Instant, SigningKey]] = {}
        self._published: PublishedKeys | None = None
        self._looked_at: Instant | None = None
        self._changed = -1
        self._revision = -1

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """Algorithms that have, or will soon have, a signing key."""
        return self._plan.algorithms

    def current(self, now: Instant, algorithm: Algorithm = ALGORITHM) -> SigningKey:
        """Return the key that currently signs with this algorithm. Raises NoSigningKey."""
        cached_key = self._signs.get(algorithm)
        # The current key depends only on the records and on the second.
        if cached_key is not None and cached_key[0] == now:
            return cached_key[1]
        active = _active(self._records.get(algorithm, _NO_RECORDS), now)
        if not active or algorithm not in self._plan.algorithms:
            raise NoSigningKey(f"there is no signing key for {algorithm.value} yet")
        key = self._open(active[-1])
        self._signs[algorithm] = (now, key)
        return key

    def published(self, now: Instant) -> KeySet:
        """Return all published public keys: next, current and retiring, of all algorithms."""
        published = self._published
        if published is None or not published.since <= now < published.until:
            every = chain.from_iterable(self._records.values())
            published = self._published = published_keys(every, now)
        return published.keys

    async def refresh(self, now: Instant, *, surely: bool = False) -> None:
        """Read the keys again if they changed: as of one second ago or, if `surely`, as of now.

        Use `surely` before rejecting an unknown key. On PostgreSQL that takes a query.
        """
        engine = self._store.engine
        changed = engine.changed()
        told_at_once = not surely or engine.mark() is not None
        if changed == self._changed and self._records and told_at_once:
            return
        number, records = await self._store.read(
            lambda tx: (revision(tx.db), tuple(tx.signing_keys.all(now)))
        )
        self._changed = changed
        if number != self._revision or not self._records:
            self._revision = number
            # The revision also counts changes of clients, which are frequent.
            if (sorted_ := _by_algorithm(records)) != self._records:
                self._records, self._published = sorted_, None
                self._signs.clear()
                kept = {record.kid for record in records} & self._opened.keys()
                self._opened = {kid: self._opened[kid] for kid in kept}

    @property
    def must_ask(self) -> bool:
        """Whether only a query can tell that the keys are unchanged."""
        return self._store.engine.mark() is None

    async def refresh_each_second(self, now: Instant) -> None:
        """Refresh at most once a second: enough for signing with a long-published key."""
        if now != self._looked_at or not self._records:
            self._looked_at = now
            await self.refresh(now)

    async def maintain(self, now: Instant) -> None:
        """Create missing keys and retire old ones. Safe to run in any number of processes.

        Raises NoSigningKey and creates nothing if the keyring cannot decrypt the existing keys:
        keys sealed with it would be unusable for other processes.
        """
        await self._read_again(now)
        self._open_all()
        late = [a for a in self.algorithms if not _in_order(self._of(a), now)]
        done_for = self._done_for(self._records, now)
        if late or done_for:
            drafts = await self._draft(late)

            def create_and_remove(tx: Transaction) -> None:
                for algorithm in late:
                    self._put_in_order(tx, drafts[algorithm], algorithm, now)
                for record in self._done_for(_by_algorithm(tx.signing_keys.all(now)), now):
                    self._retire(tx, record, now, now)

            await self._store.write(create_and_remove, done_by=USUAL_ACTOR)
            await self._read_again(now)
            self._open_all()

    async def rotate(
        self,
        now: Instant,
        *,
        at_once: bool = False,
        algorithm: Algorithm | None = None,
        allowed: Callable[[Transaction], object] = bool,
        done_by: DoneBy,
    ) -> None:
        """Let the next key take over now, or as soon as it has been published long enough.

        For one algorithm or all. Raises NoSigningKey and what `allowed` raises; refused with
        `conflict` while 500 keys are published.
        """
        await self.maintain(now)
        rotating = self.algorithms if algorithm is None else (algorithm,)
        for signing_algorithm in rotating:
            self.current(now, signing_algorithm)
        drafts = await self._draft(rotating)

        def rotate_keys(tx: Transaction) -> None:
            touch(tx.db)
            allowed(tx)
            if len(tx.signing_keys.all(now)) >= _MOST:
                raise Refused(_TOO_MANY)
            for signing_algorithm in rotating:
                self._expedite_next_key(
                    tx, drafts[signing_algorithm], signing_algorithm, now, at_once=at_once
                )

        await self._store.write(rotate_keys, done_by=done_by)
        await self._read_again(now)

    async def withdraw(
        self,
        kid: str,
        now: Instant,
        *,
        allowed: Callable[[Transaction], object] = bool,
        done_by: DoneBy,
    ) -> bool:
        """Withdraw a key: everything it signed is rejected from now on.

        The next key of its algorithm takes over at once. False if there is no such key. Raises what
        `allowed` raises inside the transaction.
        """
        await self.maintain(now)
        record = next(
            (r for r in chain.from_iterable(self._records.values()) if r.kid == kid), None
        )
        if record is None:
            return False
        affected = [algorithm for algorithm in self.algorithms if algorithm == record.algorithm]
        drafts = await self._draft(affected)

        def withdraw_key(tx: Transaction) -> bool:
            touch(tx.db)
            allowed(tx)
            if not tx.signing_keys.withdraw(kid, now):
                return False
            tx.events.add(SigningKeyWithdrawn(kid), now)
            for algorithm in affected:
                if any(r.activates_at <= now for r in _unretired(_read(tx, algorithm, now))):
                    self._put_in_order(tx, drafts[algorithm], algorithm, now)
                else:
                    self._expedite_next_key(tx, drafts[algorithm], algorithm, now, at_once=True)
            return True

        withdrawn = await self._store.write(withdraw_key, done_by=done_by)
        await self._read_again(now)
        return withdrawn

    async def _read_again(self, now: Instant) -> None:
        self._changed = -1
        await self.refresh(now)

    def _of(self, algorithm: Algorithm) -> Sequence[SigningKeyRecord]:
        return self._records.get(algorithm, _NO_RECORDS)

    def _done_for(self, records: _Records, now: Instant) -> Sequence[SigningKeyRecord]:
        """Return expired keys of algorithms that are no longer configured.

        Not before they expire: processes with different settings would otherwise undo each other's
        work.
        """
        unwanted = [records[algorithm] for algorithm in records if algorithm not in self.algorithms]
        return [
            record
            for record in chain.from_iterable(map(_unretired, unwanted))
            if later(record.activates_at, self._plan.lifetime) <= now
        ]

    def _expedite_next_key(
        self,
        tx: Transaction,
        drafts: Iterable["_Draft"],
        algorithm: Algorithm,
        now: Instant,
        *,
        at_once: bool,
    ) -> None:
        upcoming = [r for r in _unretired(_read(tx, algorithm, now)) if r.activates_at > now]
        if upcoming:
            publication_end = later(upcoming[0].created_at, self._plan.publication)
            tx.signing_keys.activate(upcoming[0].kid, now if at_once else max(now, publication_end))
        self._put_in_order(tx, drafts, algorithm, now)

    def _put_in_order(
        self, tx: Transaction, drafts: Iterable["_Draft"], algorithm: Algorithm, now: Instant
    ) -> None:
        supply = iter(drafts)
        # Read before the keys: a key created by another process in between then wins the number.
        period = tx.signing_keys.last_period(algorithm) + 1
        records = _unretired(_read(tx, algorithm, now))
        active = _active(records, now)
        for old, new in pairwise(active):
            self._retire(tx, old, new.activates_at, now)
        if active:
            starts = active[-1].activates_at
        else:
            # The first key of an algorithm needs no notice: nothing has cached the key set.
            self._issue(tx, supply, period, now, now)
            starts, period = now, period + 1
        if len(records) == len(active):
            first = max(later(starts, self._plan.lifetime), later(now, self._plan.publication))
            self._issue(tx, supply, period, first, now)

    def _retire(
        self, tx: Transaction, record: SigningKeyRecord, since: Instant, now: Instant
    ) -> None:
        if tx.signing_keys.retire(record.kid, since, later(since, _PUBLISHED_AFTER)):
            tx.events.add(SigningKeyRetired(record.kid), now)

    def _issue(
        self,
        tx: Transaction,
        supply: Iterator["_Draft"],
        period: int,
        activates_at: Instant,
        now: Instant,
    ) -> None:
        draft = next(supply)
        record = SigningKeyRecord(
            kid=draft.key.kid,
            purpose=PURPOSE,
            algorithm=draft.key.algorithm.value,
            period=period,
            public_jwk=draft.key.public.text(),
            sealed=draft.sealed,
            created_at=now,
            activates_at=activates_at,
            retires_at=None,
            removed_at=None,
        )
        if tx.signing_keys.issue(record):
            tx.events.add(SigningKeyIssued(record.kid, record.algorithm, activates_at), now)

    async def _draft(
        self, algorithms: Iterable[Algorithm]
    ) -> Mapping[Algorithm, tuple["_Draft", "_Draft"]]:
        """Generate two keys per algorithm, as many as an empty database needs."""
        names = tuple(algorithms)
        # In parallel: generating RSA keys releases the interpreter lock.
        made = await asyncio.gather(*(_make(algorithm) for algorithm in (*names, *names)))
        drafts = tuple(self._seal(key) for key in made)
        pairs = zip(drafts[: len(names)], drafts[len(names) :], strict=True)
        return dict(zip(names, pairs, strict=True))

    def _seal(self, key: SigningKey) -> "_Draft":
        return _Draft(
            key, self._sealer.seal(key.private_jwk().encode(), binding(key.kid), self._random)
        )

    def _open(self, record: SigningKeyRecord) -> SigningKey:
        key = self._opened.get(record.kid)
        if key is None:
            key = SigningKey.from_private_jwk(self._unseal(record).decode())
            self._opened[record.kid] = key
        return key

    def _open_all(self) -> None:
        # Sealed before use, so that a key can still be used while the keyring is rotated.
        for record in chain.from_iterable(map(_unretired, self._records.values())):
            self._open(record)

    def _unseal(self, record: SigningKeyRecord) -> bytes:
        plain = self._sealer.open(record.sealed, binding(record.kid))
        if plain is None:
            raise NoSigningKey("the keyring does not open the signing keys of this database")
        return plain


class _Draft(Struct, frozen=True):
    key: SigningKey
    sealed: str


def binding(kid: str) -> str:
    """Return the binding of a sealed private key to its row: it cannot be decrypted in another."""
    return f"signing_keys.sealed:{kid}"


async def _make(algorithm: Algorithm) -> SigningKey:
    if algorithm in _SLOW:
        return await asyncio.to_thread(SigningKey.generate, algorithm)
    return SigningKey.generate(algorithm)


def _by_algorithm(records: Iterable[SigningKeyRecord]) -> _Records:
    """Group the records by algorithm, in their order, with the default algorithm first."""
    sorted_: dict[str, list[SigningKeyRecord]] = {algorithm: [] for algorithm in Algorithm}
    for record in records:
        sorted_.setdefault(record.algorithm, []).append(record)
    return {algorithm: listed for algorithm, listed in sorted_.items() if listed}


def _read(tx: Transaction, algorithm: Algorithm, now: Instant) -> Sequence[SigningKeyRecord]:
    return [record for record in tx.signing_keys.all(now) if record.algorithm == algorithm]


def _unretired(records: Sequence[SigningKeyRecord]) -> Sequence[SigningKeyRecord]:
    return [record for record in records if record.retires_at is None]


def _active(records: Sequence[SigningKeyRecord], now: Instant) -> Sequence[SigningKeyRecord]:
    """Return the keys that may sign now; the last one does, the others are about to retire."""
    unretired = _unretired(records)
    # A process with a fast clock may have created or activated the key; it already signs.
    return [record for record in unretired if record.activates_at <= now] or unretired[:1]


def _in_order(records: Sequence[SigningKeyRecord], now: Instant) -> bool:
    return len(_active(records, now)) == 1 and len(_unretired(records)) > 1
