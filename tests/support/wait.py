"""Waiting for an event in a test: for as long as it takes, up to one ceiling for all of them.

A test never waits for a number of seconds. On a busy machine that is too short, and on an idle one
it is lost. The ceiling only ends a test whose event never comes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

CEILING = 110.0
"""Seconds after which an event counts as one that never comes. Below `faulthandler_timeout`."""

_EVERY = 0.01


def wait_until(condition: Callable[[], T], what: str = "", *, every: float = _EVERY) -> T:
    """What `condition` gives as soon as it is true. Raises AssertionError if it never is.

    It is asked `every` so many seconds: less often where asking takes a process or a request.
    """
    deadline = time.monotonic() + CEILING
    while not (result := condition()):
        assert time.monotonic() < deadline, what or "it never happened"
        time.sleep(every)
    return result


async def until(condition: Callable[[], T], what: str = "") -> T:
    """The same beside an event loop."""
    deadline = time.monotonic() + CEILING
    while not (result := condition()):
        assert time.monotonic() < deadline, what or "it never happened"
        await asyncio.sleep(_EVERY)
    return result


async def until_found(look: Callable[[], Awaitable[T]], what: str = "") -> T:
    """The same for something that has to be asked."""
    deadline = time.monotonic() + CEILING
    while not (result := await look()):
        assert time.monotonic() < deadline, what or "it never happened"
        await asyncio.sleep(_EVERY)
    return result
