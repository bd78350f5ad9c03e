"""The clock and the dice: two functions you pass in. And what is loaded when it is first used."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

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


def lazily(name: str) -> ModuleType:
    """The module of this name, which is not loaded before somebody uses it; any thread may.

    For libraries that many servers never need, and that are large.
    """
    return _Later(name)


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        # The import system sees to it that it is loaded once, whoever asks at the same time.
        return getattr(import_module(self.__name__), name)
