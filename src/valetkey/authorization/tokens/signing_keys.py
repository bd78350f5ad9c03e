"""The keys that sign, for each algorithm: one current, one next and published, the rest retiring.

Security 15. Algorithms have nothing to do with each other but the document that publishes them all.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from valetkey.authorization.model.event.actor import DoneBy
from valetkey.authorization.model.event.keys import (
    SigningKeyIssued,
    SigningKeyRetired,
    SigningKeyWithdrawn,
)
from valetkey.authorization.model.server.signing_key import SigningKeyRecord
from valetkey.authorization.storage.register.clients import revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, PublicKey, SigningKey
from valetkey.kernel.moment import Instant, Lifetime, days, later
from valetkey.kernel.seal import Sealer

PURPOSE = "access"
_PUBLISHED_AFTER = days(2)
"""A key is published until the last token it signed has expired: a day, and a day in reserve."""


ALGORITHM = Algorithm.ES256
"""With which access tokens are signed, and all else where nobody chose: short, fast, understood."""

_SLOW = (Algorithm.RS256, Algorithm.PS256)
"""Making such a key takes as long as a hundred requests."""

_Records = Mapping[str, Sequence[SigningKeyRecord]]
_NO_RECORDS: Sequence[SigningKeyRecord] = ()


class NoSigningKey(LookupError):
    """There is no key to sign with: none was made yet, or the keyring does not open it."""


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """How long a key signs, how long before that it is published, and which kinds there are."""

    lifetime: Lifetime
    publication: Lifetime
    algorithms: tuple[Algorithm, ...] = (ALGORITHM,)


class SigningKeyRing:
    """The signing keys as this process knows them, read again when any process changed them."""

    def __init__(
        self, store: Store, sealer: Sealer, plan: KeyPlan, random: Callable[[int], bytes]
    ) -> None:
        """Hold no key yet; `refresh` or `keep` reads them."""
        self._store = store
        self._sealer = sealer
        self._plan = plan
        self._random = random
        self._records: _Records = {}
        self._opened: dict[str, SigningKey] = {}
        self._signs: dict[Algorithm, tuple[Instant, SigningKey]] = {}
        self._published: _Published | None = None
        self._looked_at: Instant | None = None
        self._changed = -1
        self._revision = -1

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """With which there is, or soon will be, a key that signs."""
        return self._plan.algorithms

    def current(self, now: Instant, algorithm: Algorithm = ALGORITHM) -> SigningKey:
        """The key that signs now with this algorithm. Raises NoSigningKey."""
        found = self._signs.get(algorithm)
        # Which key it is changes with the records and with the second, and with nothing else.
        if found is not None and found[0] == now:
            return found[1]
        active = _active(self._records.get(algorithm, _NO_RECORDS), now)
        if not active or algorithm not in self._plan.algorithms:
            raise NoSigningKey(f"there is no signing key for {algorithm.value} yet")
        key = self._open(active[-1])
        self._signs[algorithm] = (now, key)
        return key

    def published(self, now: Instant) -> KeySet:
        """Every public key that clients may meet, of all algorithms: next, current and retiring."""
        published = self._published
        if published is None or not published.since <= now < published.until:
            published = self._published = _publish(self._records, now)
        return published.keys

    async def refresh(self, now: Instant, *, surely: bool = False) -> None:
        """Read the keys again if anybody changed them: a second ago or, if `surely`, just now.

        Surely, for who is about to say that a key is none of ours: another process may sign with a
        key that was made this second. On PostgreSQL that costs a question.
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
            # The number also counts changes of clients, and those are many.
            if (sorted_ := _by_algorithm(records)) != self._records:
                self._records, self._published = sorted_, None
                self._signs.clear()
                kept = {record.kid for record in records} & self._opened.keys()
                self._opened = {kid: self._opened[kid] for kid in kept}

    @property
    def must_ask(self) -> bool:
        """Whether only a question can tell that nobody changed the keys just now."""
        return self._store.engine.mark() is None

    async def refresh_each_second(self, now: Instant) -> None:
        """The same at most once a second: enough for who signs, whose key others know for long."""
        if now != self._looked_at:
            self._looked_at = now
            await self.refresh(now)

    async def keep(self, now: Instant) -> None:
        """Make what is missing, retire what is due. Any number of processes may do so at once.

        Raises NoSigningKey, and makes nothing, where the keyring does not open what is there: keys
        that it sealed would in their turn be of no use to everybody else.
        """
        await self._read_again(now)
        self._open_all()
        late = [a for a in self.algorithms if not _in_order(self._of(a), now)]
        done_for = self._done_for(self._records, now)
        if late or done_for:
            drafts = await self._draft(late)

            def work(tx: Transaction) -> None:
                for algorithm in late:
                    self._put_in_order(tx, drafts[algorithm], algorithm, now)
                for record in self._done_for(_by_algorithm(tx.signing_keys.all(now)), now):
                    self._retire(tx, record, now, now)

            await self._store.write(work)
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
        """Let the next key sign now, or once it has been published long enough for all to know.

        The next key of every algorithm, or of this one. Raises NoSigningKey for one without keys,
        and what `allowed` raises in the transaction that rotates.
        """
        await self.keep(now)
        rotating = self.algorithms if algorithm is None else (algorithm,)
        for each in rotating:
            self.current(now, each)
        drafts = await self._draft(rotating)

        def work(tx: Transaction) -> None:
            allowed(tx)
            for each in rotating:
                self._hurry(tx, drafts[each], each, now, at_once=at_once)

        await self._store.write(work, done_by=done_by)
        await self._read_again(now)

    async def withdraw(
        self,
        kid: str,
        now: Instant,
        *,
        allowed: Callable[[Transaction], object] = bool,
        done_by: DoneBy,
    ) -> bool:
        """Take back a key that others may know: everything it signed is refused from now on.

        The next key of its algorithm takes over at once. False if there is no such key. Raises
        what `allowed` raises in the transaction that withdraws.
        """
        await self.keep(now)
        known = chain.from_iterable(self._records.values())
        found = next((record for record in known if record.kid == kid), None)
        if found is None:
            return False
        affected = [each for each in self.algorithms if each == found.algorithm]
        drafts = await self._draft(affected)

        def work(tx: Transaction) -> bool:
            allowed(tx)
            if not tx.signing_keys.withdraw(kid, now):
                return False
            tx.events.add(SigningKeyWithdrawn(kid), now)
            for each in affected:
                if any(r.activates_at <= now for r in _unretired(_read(tx, each, now))):
                    self._put_in_order(tx, drafts[each], each, now)
                else:
                    self._hurry(tx, drafts[each], each, now, at_once=True)
            return True

        withdrawn = await self._store.write(work, done_by=done_by)
        await self._read_again(now)
        return withdrawn

    async def _read_again(self, now: Instant) -> None:
        self._changed = -1
        await self.refresh(now)

    def _of(self, algorithm: Algorithm) -> Sequence[SigningKeyRecord]:
        return self._records.get(algorithm, _NO_RECORDS)

    def _done_for(self, records: _Records, now: Instant) -> Sequence[SigningKeyRecord]:
        """Keys whose time is up and whose algorithm the operator no longer wants.

        Not before their time: where settings differ between processes, each would undo the other.
        """
        unwanted = [records[each] for each in records if each not in self.algorithms]
        return [
            record
            for record in chain.from_iterable(map(_unretired, unwanted))
            if later(record.activates_at, self._plan.lifetime) <= now
        ]

    def _hurry(
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
            known = later(upcoming[0].created_at, self._plan.publication)
            tx.signing_keys.activate(upcoming[0].kid, now if at_once else max(now, known))
        self._put_in_order(tx, drafts, algorithm, now)

    def _put_in_order(
        self, tx: Transaction, drafts: Iterable["_Draft"], algorithm: Algorithm, now: Instant
    ) -> None:
        supply = iter(drafts)
        # Looked up before the keys: a key that another process makes in between takes the number.
        period = tx.signing_keys.last_period(algorithm) + 1
        records = _unretired(_read(tx, algorithm, now))
        active = _active(records, now)
        for old, new in pairwise(active):
            self._retire(tx, old, new.activates_at, now)
        if active:
            starts = active[-1].activates_at
        else:
            # Nobody knows any key of this kind yet, so the first one needs no notice.
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
        """Two keys for each: as many as a database without any needs."""
        wanted = tuple(algorithms)
        # All at once: the slow ones are made outside of the interpreter, on every core there is.
        made = await asyncio.gather(*(_make(each) for each in (*wanted, *wanted)))
        drafts = tuple(self._seal(key) for key in made)
        pairs = zip(drafts[: len(wanted)], drafts[len(wanted) :], strict=True)
        return dict(zip(wanted, pairs, strict=True))

    def _seal(self, key: SigningKey) -> "_Draft":
        return _Draft(
            key, self._sealer.seal(key.private_jwk().encode(), place(key.kid), self._random)
        )

    def _open(self, record: SigningKeyRecord) -> SigningKey:
        key = self._opened.get(record.kid)
        if key is None:
            key = SigningKey.from_private_jwk(self._unseal(record).decode())
            self._opened[record.kid] = key
        return key

    def _open_all(self) -> None:
        # Ahead of their use: whoever holds its keys goes on when they are sealed anew.
        for record in chain.from_iterable(map(_unretired, self._records.values())):
            self._open(record)

    def _unseal(self, record: SigningKeyRecord) -> bytes:
        plain = self._sealer.open(record.sealed, place(record.kid))
        if plain is None:
            raise NoSigningKey("the keyring does not open the signing keys of this database")
        return plain


@dataclass(frozen=True, slots=True)
class _Draft:
    key: SigningKey
    sealed: str


def place(kid: str) -> str:
    """Where a sealed private key lives; moved to another row it does not open."""
    return f"signing_keys.sealed:{kid}"


class _Published(NamedTuple):
    """The key set for every moment from `since` until before `until`."""

    keys: KeySet
    since: float
    until: float


def _publish(records: _Records, now: Instant) -> _Published:
    all_ = list(chain.from_iterable(records.values()))
    ends = [record.removed_at for record in all_ if record.removed_at is not None]
    live = (r for r in all_ if r.removed_at is None or r.removed_at > now)
    return _Published(
        KeySet.of(*(PublicKey.parse(record.public_jwk) for record in live)),
        max((end for end in ends if end <= now), default=float("-inf")),
        min((end for end in ends if end > now), default=float("inf")),
    )


async def _make(algorithm: Algorithm) -> SigningKey:
    if algorithm in _SLOW:
        return await asyncio.to_thread(SigningKey.generate, algorithm)
    return SigningKey.generate(algorithm)


def _by_algorithm(records: Iterable[SigningKeyRecord]) -> _Records:
    """The records of each algorithm, in the order they were, and the usual algorithm first."""
    sorted_: dict[str, list[SigningKeyRecord]] = {each: [] for each in Algorithm}
    for record in records:
        sorted_.setdefault(record.algorithm, []).append(record)
    return {algorithm: listed for algorithm, listed in sorted_.items() if listed}


def _read(tx: Transaction, algorithm: Algorithm, now: Instant) -> Sequence[SigningKeyRecord]:
    return [record for record in tx.signing_keys.all(now) if record.algorithm == algorithm]


def _unretired(records: Sequence[SigningKeyRecord]) -> Sequence[SigningKeyRecord]:
    return [record for record in records if record.retires_at is None]


def _active(records: Sequence[SigningKeyRecord], now: Instant) -> Sequence[SigningKeyRecord]:
    """Those that may sign now: the last of them does, the others are about to retire."""
    unretired = _unretired(records)
    # Where a clock ahead of ours made the only one or let it take over, it signs already.
    return [record for record in unretired if record.activates_at <= now] or unretired[:1]


def _in_order(records: Sequence[SigningKeyRecord], now: Instant) -> bool:
    return len(_active(records, now)) == 1 and len(_unretired(records)) > 1
