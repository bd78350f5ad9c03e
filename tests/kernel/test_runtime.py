"""The machine's clock and dice."""

import time

from valetkey.kernel.runtime import SYSTEM


def test_the_clock_counts_whole_seconds_of_now() -> None:
    before = int(time.time())
    now = SYSTEM.now()
    assert type(now) is int
    assert before <= now <= time.time()


def test_the_dice_give_as_many_bytes_as_asked_and_never_the_same() -> None:
    assert [len(SYSTEM.random(size)) for size in (0, 1, 32)] == [0, 1, 32]
    assert len({SYSTEM.random(16) for _ in range(100)}) == 100
