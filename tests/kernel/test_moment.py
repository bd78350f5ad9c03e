"""Instants and lifetimes are whole seconds, however they are written."""

import pytest

from valetkey.kernel.moment import (
    Instant,
    days,
    hours,
    is_live,
    later,
    minutes,
    parse_lifetime,
    seconds,
)
from valetkey.kernel.refusal import OperatorError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("60s", 60),
        ("10m", 600),
        ("1h", 3_600),
        ("30d", 2_592_000),
        ("1s", 1),
        ("1 h", 3_600),
        ("10 min", 600),
        ("1hour", 3_600),
        ("2 days", 172_800),
        ("30 seconds", 30),
    ],
)
def test_a_lifetime_is_a_number_and_a_unit(text: str, count: int) -> None:
    assert parse_lifetime(text) == count


# int() would take most of these: '１２' is 12, '1_000' is 1000, ' 12\n' is 12, '²'.isdigit().
@pytest.mark.parametrize(
    "text",
    [
        "",
        "0s",
        "00s",
        "s",
        "-1s",
        "+1s",
        "1  s",
        "1\ts",
        "1 hou",
        "1 ms",
        "１２s",
        "1_0s",
        " 12s",
        "12s\n",
        "²s",
        "1.5h",
        "1e3s",
        "infs",
        "nans",
        "1S",
        "1w",
        "9999999999s",
        "٣s",
        "01s",
        "1ſ",
    ],
)
def test_invalid_lifetime_is_an_operator_error(text: str) -> None:
    with pytest.raises(OperatorError, match="60s, 10m, 1h or 30d"):
        parse_lifetime(text)


def test_a_number_without_a_unit_is_refused_with_the_units() -> None:
    with pytest.raises(OperatorError, match="add a unit: 90s, 90m, 90h or 90d"):
        parse_lifetime("90")


def test_units_agree_with_each_other() -> None:
    assert days(1) == hours(24) == minutes(1_440) == seconds(86_400)
    assert later(Instant(100), minutes(1)) == 160


@pytest.mark.parametrize(
    ("now", "live"), [(939, False), (940, True), (1_000, True), (1_099, True), (1_100, False)]
)
def test_live_from_a_minute_before_issue_until_expiry(now: int, live: bool) -> None:
    assert is_live(Instant(1_000), Instant(1_100), Instant(now)) is live
