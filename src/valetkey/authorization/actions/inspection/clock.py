"""The check of this machine's clock: whether the kernel says that it is synchronized."""

import sys
from importlib import import_module

from valetkey.authorization.actions.inspection.check import (
    Condition,
    Findings,
    Level,
    MachineCheck,
)
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

CLOCK_FREE = Condition(
    "clock_free",
    Level.WARNING,
    "this machine's clock",
    translatable("The kernel says this machine's clock is not synchronized: it may be wrong."),
    translatable(
        "Run a time service such as chrony, unless the hypervisor sets the clock. For its state:"
    ),
    "timedatectl",
    page="how-to/operate/alerts/clock-stepped",
)
CLOCK_SYNCHRONIZED = Condition(
    "clock_synchronized", Level.OK, "this machine's clock", "The kernel says it is synchronized."
)

_STATUS = 20 if sys.maxsize < 1 << 32 else 40
"""Offset of `status` in `struct timex` (adjtimex(2)), after the mode and four numbers."""

_UNSYNCHRONIZED = 0x0040
_ENOUGH = 512  # bytes, of which the structure takes less


def kernel_status() -> int | None:
    """Return the status bits of the kernel's clock; None where they cannot be read.

    They exist on Linux, and containers may deny the system call.
    """
    if sys.platform != "linux":
        return None
    ctypes = import_module("ctypes")
    # Zero in the first member, the mode: nothing is changed, which needs no privilege.
    timex = ctypes.create_string_buffer(_ENOUGH)
    try:
        failed = ctypes.CDLL(None).adjtimex(timex) == -1
    except (OSError, AttributeError):
        return None
    return None if failed else int.from_bytes(timex[_STATUS : _STATUS + 4], sys.byteorder)


def clock(_: Settings, __: Instant) -> Findings:
    """Judge the clock by what the kernel knows of it; nothing is found where it tells nothing."""
    status = kernel_status()
    if status is not None:
        yield (CLOCK_FREE if status & _UNSYNCHRONIZED else CLOCK_SYNCHRONIZED).found()


CHECKS = (MachineCheck("machine_clock", clock, (CLOCK_FREE, CLOCK_SYNCHRONIZED)),)
