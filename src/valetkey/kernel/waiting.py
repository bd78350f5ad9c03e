"""Whose request this is: who waits for the answer, and whether anybody still does."""

from contextvars import ContextVar
from typing import Protocol

HALF_CLOSED = 1.0
"""Seconds in which a client that sends nothing more is taken for one that still reads."""


class Caller(Protocol):
    """A client that waits for its answer. Threads read it, the event loop's thread writes it."""

    gone: bool
    """The connection is closed."""

    @property
    def half_closed_at(self) -> float:
        """Since when the client waits and sends nothing more (`time.monotonic`); else infinite.

        It has closed the connection, or only its own half. All requests of a connection share it.
        """
        ...

    patience: float
    """Seconds that work of the request may wait for its turn before it is not worth beginning."""


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The caller of the request that runs; None for what the server does by itself.

A task that outlives the request that started it sets it to None first.
"""
