"""The keys that sign: one current, one next and published, the rest retiring (security 15)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from valetkey.authorization.model.event import (
    SigningKeyIssued,
    SigningKeyRetired,
    SigningKeyWithdrawn,
)
from valetkey.authorization.model.signing_key import KeyState, SigningKeyRecord
from valetkey.authorization.storage.register.clients import revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.jose.key import Algorithm, KeySet, PublicKey, SigningKey
from valetkey.kernel.moment import Instant, Lifetime, days, later
from valetkey.kernel.seal import Sealer

PURPOSE = "access"
_PUBLISHED_AFTER = days(2)
"""A key is published until the last token it signed has expired: a day, and a day in reserve."""


ALGORITHM = Algorithm.ES256
"""With which everything is signed: what is short, fast, and understood everywhere."""


class NoSigningKey(LookupError):
    """There is no key to sign with: none was made yet, or the keyring does not open it."""


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """How long a key signs, and how long before that it is published."""

    lifetime: Lifetime
    publication: Lifetime


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
        self._records: tuple[SigningKeyRecord, ...] = ()
        self._opened: dict[str, SigningKey] = {}
        self._published: tuple[tuple[str, ...], KeySet] = ((), KeySet())
        self._looked_at: Instant | None = None
        self._changed = -1
        self._revision = -1

    def current(self, now: Instant) -> SigningKey:
        """The key that signs now. Raises NoSigningKey."""
        active = _active(self._records, now)
        if not active:
            raise NoSigningKey("there is no signing key yet")
        return self._open(active[-1])

    def published(self, now: Instant) -> KeySet:
        """Every public key that clients may meet: next, current and retiring."""
        live = tuple(record for record in self._records if record.state(now) is not KeyState.GONE)
        kids = tuple(record.kid for record in live)
        if kids != self._published[0]:
            keys = (PublicKey.parse(record.public_jwk) for record in live)
            self._published = (kids, KeySet.of(*keys))
        return self._published[1]

    async def refresh(self, now: Instant) -> None:
        """Read the keys again if anybody changed them."""
        changed = self._store.engine.changed()
        if changed == self._changed and self._records:
            return
        number, records = await self._store.read(
            lambda tx: (revision(tx.db), tuple(tx.signing_keys.all(now)))
        )
        self._changed = changed
        if number != self._revision or not self._records:
            self._revision = number
            self._records = records
            self._opened = {r.kid: self._opened[r.kid] for r in records if r.kid in self._opened}

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
        self._changed = -1
        await self.refresh(now)
        if self._records:
            self.current(now)
        if _in_order(self._records, now):
            return
        drafts = [self._draft(), self._draft()]
        await self._store.write(lambda tx: self._put_in_order(tx, drafts, now))
        self._changed = -1
        await self.refresh(now)

    async def rotate(self, now: Instant, *, at_once: bool = False) -> None:
        """Let the next key sign now, or once it has been published long enough for all to know."""
        await self.keep(now)
        drafts = [self._draft(), self._draft()]
        await self._store.write(lambda tx: self._hurry(tx, drafts, now, at_once=at_once))
        self._changed = -1
        await self.refresh(now)

    async def withdraw(self, kid: str, now: Instant) -> bool:
        """Take back a key that others may know: everything it signed is refused from now on.

        The next key takes over at once. False if there is no such key.
        """
        await self.keep(now)
        drafts = [self._draft(), self._draft()]

        def work(tx: Transaction) -> bool:
            if not tx.signing_keys.withdraw(kid, now):
                return False
            tx.events.add(SigningKeyWithdrawn(kid), now)
            if any(r.activates_at <= now for r in _unretired(tx.signing_keys.all(now))):
                self._put_in_order(tx, drafts, now)
            else:
                self._hurry(tx, drafts, now, at_once=True)
            return True

        withdrawn = await self._store.write(work)
        self._changed = -1
        await self.refresh(now)
        return withdrawn

    def _hurry(
        self, tx: Transaction, drafts: list["_Draft"], now: Instant, *, at_once: bool
    ) -> None:
        upcoming = [r for r in _unretired(tx.signing_keys.all(now)) if r.activates_at > now]
        if upcoming:
            known = later(upcoming[0].created_at, self._plan.publication)
            tx.signing_keys.activate(upcoming[0].kid, now if at_once else max(now, known))
        self._put_in_order(tx, drafts, now)

    def _put_in_order(self, tx: Transaction, drafts: list["_Draft"], now: Instant) -> None:
        # Looked up before the keys: a key that another process makes in between takes the number.
        period = tx.signing_keys.last_period() + 1
        records = _unretired(tx.signing_keys.all(now))
        active = _active(records, now)
        for old, new in pairwise(active):
            if tx.signing_keys.retire(
                old.kid, new.activates_at, later(new.activates_at, _PUBLISHED_AFTER)
            ):
                tx.events.add(SigningKeyRetired(old.kid), now)
        if active:
            starts = active[-1].activates_at
        else:
            # Nobody knows any key yet, so the first one needs no notice.
            self._issue(tx, drafts.pop(), period, now, now)
            starts, period = now, period + 1
        if len(records) == len(active):
            first = max(later(starts, self._plan.lifetime), later(now, self._plan.publication))
            self._issue(tx, drafts.pop(), period, first, now)

    def _issue(
        self, tx: Transaction, draft: "_Draft", period: int, activates_at: Instant, now: Instant
    ) -> None:
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

    def _draft(self) -> "_Draft":
        key = SigningKey.generate(ALGORITHM)
        sealed = self._sealer.seal(key.private_jwk().encode(), place(key.kid), self._random)
        return _Draft(key, sealed)

    def _open(self, record: SigningKeyRecord) -> SigningKey:
        key = self._opened.get(record.kid)
        if key is None:
            plain = self._sealer.open(record.sealed, place(record.kid))
            if plain is None:
                raise NoSigningKey("the keyring does not open the signing keys of this database")
            key = SigningKey.from_private_jwk(plain.decode())
            self._opened[record.kid] = key
        return key


@dataclass(frozen=True, slots=True)
class _Draft:
    key: SigningKey
    sealed: str


def place(kid: str) -> str:
    """Where a sealed private key lives; moved to another row it does not open."""
    return f"signing_keys.sealed:{kid}"


def _unretired(records: Sequence[SigningKeyRecord]) -> Sequence[SigningKeyRecord]:
    return [record for record in records if record.retires_at is None]


def _active(records: Sequence[SigningKeyRecord], now: Instant) -> Sequence[SigningKeyRecord]:
    """Those that may sign now: the last of them does, the others are about to retire."""
    unretired = _unretired(records)
    # Where a clock ahead of ours made the only one or let it take over, it signs already.
    return [record for record in unretired if record.activates_at <= now] or unretired[:1]


def _in_order(records: Sequence[SigningKeyRecord], now: Instant) -> bool:
    return len(_active(records, now)) == 1 and len(_unretired(records)) > 1
