"""Moments as people say them, in their own time where they named their zone."""

import pytest

from valetkey.authorization.layout.contexts import When
from valetkey.kernel.moment import Instant

AT = When(Instant(1_795_278_633), Instant(1_795_278_700))


@pytest.mark.parametrize(
    ("zone", "exact", "day"),
    [
        ("", "2026-11-21 16:30:33 UTC", "2026-11-21"),
        ("Europe/Berlin", "2026-11-21 17:30:33 CET", "2026-11-21"),
        ("Asia/Tokyo", "2026-11-22 01:30:33 JST", "2026-11-22"),
        ("Nowhere/Gone", "2026-11-21 16:30:33 UTC", "2026-11-21"),
        ("../etc/passwd", "2026-11-21 16:30:33 UTC", "2026-11-21"),
    ],
)
def test_exact_time_is_shown_in_the_given_time_zone(zone: str, exact: str, day: str) -> None:
    assert AT.exact_in(zone) == exact
    assert AT.day_in(zone) == day
    assert AT.machine == "2026-11-21T16:30:33Z"
    assert AT.elapsed == 67
