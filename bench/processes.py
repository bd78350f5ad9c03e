"""The end of the processes that a run started: with the run, however that ends."""

import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from valetkey.cli import interrupts
from valetkey.cli.say import Exit

_PATIENCE = 30.0  # seconds in which they end by themselves


@contextmanager
def ended_together() -> Generator[None]:
    """End what the block started and left running; a signal that ends a program is raised once."""
    interrupts.raise_once()
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    finally:
        interrupts.ignore()
        _end_children()
        # The interpreter restores the handlers of signals before the process ends.
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.ENDINGS)


def _end_children() -> None:
    for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        until = time.monotonic() + patience
        with suppress(ChildProcessError):
            while time.monotonic() < until:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(0.02)


def _children() -> list[int]:
    threads = Path("/proc/self/task").iterdir()
    return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
