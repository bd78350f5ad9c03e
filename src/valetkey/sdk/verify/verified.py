"""A cache of verified tokens: one hash instead of one signature check."""

from hashlib import sha256

from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.sdk.caller import Caller


class VerifiedTokens:
    """A bounded cache from a token's hash to its caller, valid while the keys stay.

    It covers only the signature and the lifetime; revocation is checked on every use, elsewhere.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        """Hold at most `capacity` callers, evicting the oldest."""
        self._capacity = capacity
        self._callers: dict[bytes, Caller] = {}
        self._keys: KeySet | None = None

    def find(self, token: str, keys: KeySet, now: Instant) -> Caller | None:
        """Return the token's caller if `keys` are still those that verified it."""
        # A key removed from the set invalidates the tokens it signed.
        if keys is not self._keys:
            self._callers.clear()
            self._keys = keys
            return None
        print_ = _print(token)
        caller = self._callers.get(print_)
        if caller is None or caller.is_live(now):
            return caller
        del self._callers[print_]
        return None

    def keep(self, token: str, keys: KeySet, caller: Caller) -> None:
        """Cache the result that `keys` verified this token."""
        if keys is not self._keys:
            self._callers.clear()
            self._keys = keys
        while len(self._callers) >= self._capacity:
            del self._callers[next(iter(self._callers))]
        self._callers[_print(token)] = caller

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return len(self._callers)


def _print(token: str) -> bytes:
    # The hash, so that a memory dump contains no token.
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
