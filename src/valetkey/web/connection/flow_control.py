"""Flow control of what a connection reads; the end of one that is paused is noticed as well."""

import asyncio
import select
import socket
from collections.abc import Callable
from typing import cast

_LOOK = 0.25  # seconds between two looks at a connection that is not read
_RESET = select.POLLERR | select.POLLHUP
# Only Linux tells that the other end is closed before all that it sent is read.
_HALF_CLOSED: int = getattr(select, "POLLRDHUP", 0)


class FlowControl:
    """Pauses and resumes reading from one transport.

    Whoever does not read hears of no end. The socket knows of it: while reading is paused it is
    asked four times a second. A connection that was reset is aborted.
    """

    __slots__ = (
        "_delayed",
        "_looking",
        "_loop",
        "_on_half_close",
        "_paused",
        "_transport",
        "_wanted",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        on_half_close: Callable[[], None],
    ) -> None:
        """Control a transport that reads; `on_half_close` is told of a close noticed in a pause."""
        self._transport = transport
        self._loop = loop
        self._on_half_close = on_half_close
        self._wanted = True
        self._paused = False
        self._delayed = False
        self._looking = False

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read now."""
        return self._paused

    def set_reading(self, wanted: bool) -> None:
        """Read if it is `wanted`, once the delay is over if there is one; else pause."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._apply()

    def delay(self, seconds: float) -> None:
        """Read nothing for so many seconds, whatever is wanted."""
        if not self._delayed:
            self._delayed = True
            self._loop.call_later(seconds, self._end_delay)
            self._apply()

    def _end_delay(self) -> None:
        self._delayed = False
        self._apply()

    def _apply(self) -> None:
        paused = self._delayed or not self._wanted
        if paused == self._paused or self._transport.is_closing():
            return
        self._paused = paused
        if not paused:
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        if not self._looking:
            self._looking = True
            self._loop.call_later(_LOOK, self._look)

    def _look(self) -> None:
        self._looking = self._paused and not self._transport.is_closing()
        if not self._looking:
            return
        sock = cast("socket.socket | None", self._transport.get_extra_info("socket"))
        events = _events(sock.fileno()) if sock is not None else 0
        if events & _RESET:
            self._transport.abort()
            return
        if events & _HALF_CLOSED:
            self._on_half_close()
        self._loop.call_later(_LOOK, self._look)


def _events(descriptor: int) -> int:
    # Reading is not asked for: what is unread is of no interest here.
    poll = select.poll()
    poll.register(descriptor, _HALF_CLOSED)
    return next((events for _, events in poll.poll(0)), 0)
