"""The clock and the dice: two functions you pass in."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Runtime:
    """The two things a program cannot know from its inputs."""

    now: Callable[[], Instant]
    random: Callable[[int], bytes]


def _now() -> Instant:
    return Instant(int(time.time()))


SYSTEM = Runtime(now=_now, random=secrets.token_bytes)
"""The machine's clock and the kernel's random bytes."""
