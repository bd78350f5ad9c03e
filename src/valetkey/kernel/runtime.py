"""The clock and the random source as arguments, the issuer at work, and lazy imports."""

import asyncio
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


_AWAKE = 10.0  # seconds after a request in which background work looks as often as it wants
_SLOWER, _SLOWEST = 10, 60.0
"""By how much its pauses are longer after that, and their longest, in seconds."""


class Pace:
    """The pace of an issuer's background work: slower while no requests come.

    Where a process serves many issuers, most of them are idle, and what each of them looks for
    several times a second would keep the processor busy.
    """

    def __init__(self) -> None:
        """Begin awake."""
        self._awake_until = asyncio.get_running_loop().time() + _AWAKE
        self._request: asyncio.Future[None] | None = None

    def requested(self) -> None:
        """Note a request, which ends longer pauses."""
        self._awake_until = asyncio.get_running_loop().time() + _AWAKE
        if self._request is not None:
            self._request.set_result(None)
            self._request = None

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds; while no requests come, up to ten times as long."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._awake_until:
            await asyncio.sleep(seconds)
            return
        if self._request is None:
            self._request = loop.create_future()
        longest = max(seconds, min(seconds * _SLOWER, _SLOWEST))
        await asyncio.wait([self._request], timeout=longest)


PACE: ContextVar[Pace | None] = ContextVar("pace", default=None)
"""The pace of this background work; None where a process serves only one issuer."""


async def rest(seconds: float) -> None:
    """Wait until background work is to look again: `seconds`, unless its `PACE` is slower."""
    pace = PACE.get()
    if pace is None:
        await asyncio.sleep(seconds)
    else:
        await pace.pause(seconds)


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
