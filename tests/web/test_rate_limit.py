"""Buckets of tokens."""

from hypothesis import given
from hypothesis import strategies as st

from tests.web import NOW
from valetkey.kernel.moment import Instant
from valetkey.web.client_address import Buckets


def test_bucket_grants_its_capacity_and_then_returns_the_wait() -> None:
    buckets = Buckets(3, 60)
    assert [buckets.take("a", NOW) for _ in range(5)] == [0, 0, 0, 20, 20]
    assert buckets.take("b", NOW) == 0


def test_tokens_are_refilled_evenly() -> None:
    buckets = Buckets(3, 60)
    for _ in range(3):
        buckets.take("a", NOW)
    assert buckets.take("a", Instant(NOW + 19)) == 1
    assert buckets.take("a", Instant(NOW + 20)) == 0
    assert buckets.take("a", Instant(NOW + 20)) == 20
    assert [buckets.take("a", Instant(NOW + 500)) for _ in range(4)] == [0, 0, 0, 20]


def test_peek_takes_no_token() -> None:
    buckets = Buckets(1, 10)
    assert [buckets.peek("a", NOW), buckets.peek("a", NOW), buckets.take("a", NOW)] == [0, 0, 0]
    assert buckets.peek("a", NOW) == 10


def test_returned_token_can_be_taken_again() -> None:
    buckets = Buckets(1, 10)
    buckets.take("a", NOW)
    buckets.give_back("a")
    buckets.give_back("never seen")
    assert buckets.take("a", NOW) == 0


def test_memory_is_bounded_and_the_oldest_key_goes_first() -> None:
    buckets = Buckets(1, 60, keys=100)
    buckets.take("first", NOW)
    for number in range(99):
        buckets.take(number, NOW)
    assert buckets.take("first", NOW) == 60
    for number in range(99, 300):
        buckets.take(number, NOW)
    assert len(buckets) == 100
    assert buckets.take("first", NOW) == 0
    assert buckets.take(299, NOW) == 60


@given(st.integers(1, 20), st.integers(1, 100), st.lists(st.integers(0, 30), max_size=200))
def test_rate_never_exceeds_capacity_and_refill(
    capacity: int, refill: int, pauses: list[int]
) -> None:
    buckets, now, given_out = Buckets(capacity, refill), NOW, 0
    for pause in pauses:
        now = Instant(now + pause)
        wait = buckets.take("a", now)
        if not wait:
            given_out += 1
        else:
            assert buckets.peek("a", Instant(now + wait)) == 0
            assert buckets.peek("a", Instant(now + wait - 1)) == 1
    assert given_out <= capacity + (now - NOW) * capacity / refill


def test_clock_correction_does_not_prolong_the_wait() -> None:
    buckets = Buckets(2, 60)
    ahead = Instant(NOW + 3_600)
    assert [buckets.take("a", ahead) for _ in range(3)] == [0, 0, 30]
    assert buckets.take("a", Instant(ahead - 1)) == 31
    assert [buckets.take("a", NOW) for _ in range(3)] == [0, 0, 30]
