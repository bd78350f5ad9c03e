"""Signals that end a program: raised once, so that nothing interrupts the cleanup that follows.

A handler runs between two instructions of the main thread, so it may find any lock taken by the
code that it interrupts, itself included. Handlers here and in `serving` take none.
"""

import signal
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals of a terminal and of service managers that end a program."""


def raise_once(
    make: Callable[[], BaseException] = KeyboardInterrupt,
    numbers: Collection[signal.Signals] = ENDINGS,
) -> None:
    """Raise what `make` returns at the first of these signals, and do nothing at later ones."""

    def interrupt(*_: object) -> None:
        # First: a handler may itself be interrupted.
        ignore(numbers)
        raise make()

    handle(interrupt, numbers)


def handle(handler: Callable[..., None], numbers: Collection[signal.Signals] = ENDINGS) -> None:
    """Call `handler`, which takes no lock, at each of these signals."""
    for number in numbers:
        signal.signal(number, handler)


def ignore(numbers: Collection[signal.Signals] = ENDINGS) -> None:
    """Do nothing at these signals, also at those that have just arrived.

    With SIG_IGN, Python reports an error for the latter, and programs started later inherit it.
    """
    handle(_nothing, numbers)


@contextmanager
def held_back() -> Generator[None]:
    """Hold back the signals that end a program until the block is left, or `delivered`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def delivered() -> Generator[None]:
    """Deliver the signals that end a program for the duration of the block."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing(*_: object) -> None:
    return
