"""How much work a function does: lines of Python, and the processor time of compiled code.

Neither is wall-clock time, so that other load on the machine does not count.
"""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from valetkey.kernel.refusal import Refused
from valetkey.kernel.shapes import Invalid

Job = Callable[[], object]

_SLACK = 200
"""Lines that do not depend on the size."""

_TICK = 0.0005
"""Seconds below which the processor's clock says nothing."""

_TIMES = 8


def lines(job: Job) -> int:
    """Return the lines of Python that this thread runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        _run(job)
    finally:
        sys.settrace(before)
    return count


def seconds(job: Job) -> float:
    """Return the processor time of this thread, the least of three runs."""
    spent: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        _run(job)
        spent.append(time.thread_time() - began)
    return min(spent)


def assert_linear(job_of: Callable[[int], Job], small: int, large: int) -> None:
    """Assert that input of twice the size takes at most twice the work.

    Lines of Python are counted at the size `small` and twice that. Compiled code is measured at an
    eighth of the size `large`, and there: quadratic work would take 64 times as long.
    """
    once, twice = lines(job_of(small)), lines(job_of(2 * small))
    assert twice <= 2 * once + _SLACK, f"{once} lines, then {twice}"
    least, most = seconds(job_of(large // _TIMES)), seconds(job_of(large))
    assert most < 3 * _TIMES * max(least, _TICK), f"{least:.4f} s, then {most:.4f} s"


def _run(job: Job) -> None:
    with suppress(Refused, Invalid, ValueError):
        job()
