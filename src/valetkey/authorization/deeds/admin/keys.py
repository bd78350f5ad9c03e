"""The keys that sign, in administrators' hands: who may rotate and withdraw them."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.deeds.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.server.signing_key import SigningKeyRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant


def look(tx: Transaction, actor: Actor, now: Instant) -> Sequence[SigningKeyRecord]:
    """Every key that is published, the earliest to sign first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.signing_keys.all(now)


@dataclass(frozen=True, slots=True)
class KeyDesk:
    """Rotates and withdraws; Refused (forbidden) where the transaction finds that it may not."""

    keys: SigningKeyRing

    async def rotate(
        self, actor: Actor, now: Instant, *, at_once: bool, algorithm: Algorithm | None = None
    ) -> None:
        """Let the next key sign: once everybody knows it, or at once."""
        await self.keys.rotate(
            now,
            at_once=at_once,
            algorithm=algorithm,
            allowed=lambda tx: require(tx, actor, Permission.KEYS),
            done_by=actor.done_by,
        )

    async def withdraw(self, actor: Actor, kid: str, now: Instant) -> bool:
        """Refuse everything that this key signed, from now on. False if there is no such key."""
        return await self.keys.withdraw(
            kid,
            now,
            allowed=lambda tx: require(tx, actor, Permission.KEYS),
            done_by=actor.done_by,
        )
