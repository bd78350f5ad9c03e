"""Introspection costs the same however many APIs are declared."""

from bench.flat import measure


def test_introspection_is_flat() -> None:
    found = measure(apis=60, groups=0, tokens=60, rounds=5)
    # Reading every API would cost several times as much; noise does not.
    assert found.after.first < found.before.first * 2 + 500
    assert found.after.again < found.before.again * 2 + 500
