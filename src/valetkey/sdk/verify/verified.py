"""Tokens that were verified a moment ago: one hash instead of one signature check."""

from hashlib import sha256

from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.sdk.caller import Caller


class VerifiedTokens:
    """A bounded memory from the hash of a token to its caller, for as long as the keys stay.

    It answers for nothing but the signature and the lifetime: whether the token was revoked is
    asked on every use, elsewhere.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        """Hold at most `capacity` callers; the oldest goes first."""
        self._capacity = capacity
        self._callers: dict[bytes, Caller] = {}
        self._keys: KeySet | None = None

    def find(self, token: str, keys: KeySet, now: Instant) -> Caller | None:
        """Who presented this token before, if `keys` are still those that verified it."""
        # A key that left the set takes its tokens with it.
        if keys is not self._keys:
            self._callers.clear()
            self._keys = keys
            return None
        print_ = _print(token)
        caller = self._callers.get(print_)
        if caller is None or caller.expires_at > now:
            return caller
        del self._callers[print_]
        return None

    def keep(self, token: str, keys: KeySet, caller: Caller) -> None:
        """Remember that `keys` verified this token."""
        if keys is not self._keys:
            self._callers.clear()
            self._keys = keys
        while len(self._callers) >= self._capacity:
            del self._callers[next(iter(self._callers))]
        self._callers[_print(token)] = caller

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._callers)


def _print(token: str) -> bytes:
    # The hash, so that a dump of this memory holds no token.
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
