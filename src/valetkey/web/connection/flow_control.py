"""Flow control for reading a connection; also detects disconnects while reading is paused."""

import asyncio
import select
import socket
from collections.abc import Callable
from typing import cast

_LOOK = 0.25  # seconds between two checks of a connection that is paused
_RESET = select.POLLERR | select.POLLHUP
# Only Linux reports that the peer closed before everything it sent is read.
_HALF_CLOSED: int = getattr(select, "POLLRDHUP", 0)


class FlowControl:
    """Pauses and resumes reading from one transport.

    A transport that is not read reports no disconnect. The socket is therefore polled four times a
    second while reading is paused. A connection that was reset is aborted.
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
        """Control a reading transport; `on_half_close` is called for a close noticed in a pause."""
        self._transport = transport
        self._loop = loop
        self._on_half_close = on_half_close
        self._wanted = True
        self._paused = False
        self._delayed = False
        self._looking = False

    @property
    def is_paused(self) -> bool:
        """Return whether reading is paused."""
        return self._paused

    def set_reading(self, wanted: bool) -> None:
        """Read if `wanted`, after any delay in progress; otherwise pause."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._apply()

    def delay(self, seconds: float) -> None:
        """Pause reading for `seconds`; `set_reading` has no effect until then."""
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
    # POLLIN is left out: unread data does not matter here.
    poll = select.poll()
    poll.register(descriptor, _HALF_CLOSED)
    return next((events for _, events in poll.poll(0)), 0)
