"""The published key set, and how long it stays the same."""

from collections.abc import Iterable
from typing import NamedTuple

from valetkey.authorization.model.signing_key import SigningKeyRecord
from valetkey.kernel.jose.key import KeySet, PublicKey
from valetkey.kernel.moment import Instant


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
