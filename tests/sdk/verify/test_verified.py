"""Tokens that were verified a moment ago."""

from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.sdk.caller import Caller
from valetkey.sdk.verify import VerifiedTokens

KEYS = KeySet()


def _caller(until: int = 100) -> Caller:
    return Caller("1", "c", Scope(), "at", None, Instant(1), Instant(until))


def test_verified_token_is_cached_until_it_expires() -> None:
    verified = VerifiedTokens()
    caller = _caller()
    verified.add("t", KEYS, caller)
    assert verified.find("t", KEYS, Instant(99)) is caller
    assert verified.find("other", KEYS, Instant(99)) is None
    assert verified.find("t", KEYS, Instant(100)) is None
    assert len(verified) == 0


def test_changed_key_set_empties_the_cache() -> None:
    verified = VerifiedTokens()
    verified.add("t", KEYS, _caller())
    newer = KeySet()
    assert verified.find("t", newer, Instant(2)) is None
    assert verified.find("t", KEYS, Instant(2)) is None
    verified.add("t", newer, _caller())
    assert verified.find("t", newer, Instant(2)) is not None


def test_oldest_token_is_evicted_first() -> None:
    verified = VerifiedTokens(capacity=2)
    for token in ("a", "b", "c"):
        verified.add(token, KEYS, _caller())
    assert [verified.find(t, KEYS, Instant(2)) is not None for t in "abc"] == [False, True, True]


def test_cache_does_not_hold_tokens_in_plaintext() -> None:
    verified = VerifiedTokens()
    verified.add("vk_at_hidden", KEYS, _caller())
    assert "hidden" not in repr(verified._callers)


def test_token_issued_in_the_future_is_not_live() -> None:
    verified = VerifiedTokens()
    caller = Caller("1", "c", Scope(), "at", None, Instant(1_000), Instant(2_000))
    verified.add("t", KEYS, caller)
    assert verified.find("t", KEYS, Instant(940)) is caller
    assert verified.find("t", KEYS, Instant(939)) is None
