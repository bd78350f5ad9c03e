"""The client waiting for the current request, and whether it is still connected."""

from contextvars import ContextVar
from typing import Protocol

from valetkey.kernel.tracing import OFF, Span

HALF_CLOSED = 1.0
"""Seconds for which a half-closed client that sends nothing more is assumed to still read."""


class Caller(Protocol):
    """A client waiting for its response. Threads read this, the event loop's thread writes it."""

    gone: bool
    """The connection is closed."""

    @property
    def half_closed_at(self) -> float:
        """When the client stopped sending (`time.monotonic`); infinite if it has not.

        The client has closed the connection, or only its own half. All requests of a connection
        share it.
        """
        ...

    request_id: str
    """The id of the request, in every line of the log about it; "" before it is known."""

    complete_at: float
    """When the request was complete (`time.perf_counter`); 0 before."""

    reference: str
    """The reference of the decision record of the request's refusal; "" without one."""

    span: Span
    """The span of the request; OFF without tracing, and for requests that are not traced."""

    patience: float
    """Seconds that the request's work may queue before it is no longer worth starting."""


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The client of the current request; None for the server's own work.

A task that outlives the request that started it sets it to None first.
"""


def current_span() -> Span:
    """Return the span of the current request; OFF for the server's own work."""
    caller = CALLER.get()
    return OFF if caller is None else caller.span
