"""Introspection costs the same however many APIs are declared."""

from bench.flat import measure


def test_introspection_cost_is_independent_of_the_number_of_apis() -> None:
    flatness = measure(apis=60, groups=0, tokens=60, rounds=5)
    # Reading every API would cost several times as much; noise does not.
    assert flatness.after.first < flatness.before.first * 2 + 500
    assert flatness.after.again < flatness.before.again * 2 + 500
