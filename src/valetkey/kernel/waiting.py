"""Whose request this is: who waits for the answer, and whether anybody still does."""

from contextvars import ContextVar
from typing import Protocol


class Caller(Protocol):
    """A client that waits for its answer. Threads read it, the event loop's thread writes it."""

    gone: bool
    """The connection is closed."""

    closing: bool
    """The client sends nothing more: it has closed the connection, or only its own half."""

    patience: float
    """Seconds that work of the request may wait for its turn before it is not worth beginning."""


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The caller of the request that runs; None for what the server does by itself.

A task that outlives the request that started it sets it to None first.
"""
