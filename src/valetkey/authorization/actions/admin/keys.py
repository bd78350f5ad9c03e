"""The keys that sign, in administrators' hands: who may rotate and withdraw them."""

from collections.abc import Sequence

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.signing_key import SigningKeyRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


def look(tx: Transaction, actor: Actor, now: Instant) -> Sequence[SigningKeyRecord]:
    """Every key that is published, the earliest to sign first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.signing_keys.all(now)
