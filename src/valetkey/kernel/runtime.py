"""The clock and the random source as arguments, the issuer at work, and lazy imports."""

import secrets
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType

from msgspec import Struct

from valetkey.kernel.moment import Instant

ISSUER: ContextVar[str] = ContextVar("issuer", default="")
"""The name of the issuer that this task or thread works for; "" where a process serves only one."""


class Runtime(Struct, frozen=True):
    """The inputs a program cannot compute: the current time and random bytes."""

    now: Callable[[], Instant]
    random: Callable[[int], bytes]


class IssuerThread(threading.Thread):
    """A daemon thread that works for the issuer of the task or thread that made it."""

    def __init__(
        self, target: Callable[..., object], name: str, args: tuple[object, ...] = ()
    ) -> None:
        """Start nothing yet: `start` calls `target` with `args`."""
        super().__init__(target=target, name=name, args=args, daemon=True)
        self._issuer = ISSUER.get()

    def run(self) -> None:
        """Call the target for its issuer."""
        ISSUER.set(self._issuer)
        super().run()


def _now() -> Instant:
    return Instant(int(time.time()))


SYSTEM = Runtime(now=_now, random=secrets.token_bytes)
"""The system clock and the kernel's random bytes."""


def nanoseconds() -> int:
    """Return the time of the system clock since 1970, in nanoseconds."""
    return time.time_ns()


def import_lazily(name: str) -> ModuleType:
    """Return the module of this name, imported on first use; safe to call from any thread.

    For large libraries that many servers never need.
    """
    return _Later(name)


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        # The import system loads the module once, also when several threads import it at the same
        # time.
        return getattr(import_module(self.__name__), name)
