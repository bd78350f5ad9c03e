"""Whether a connection reads: not while what came waits, and not while it was told to wait."""

import asyncio


class Tap:
    """Opens and shuts the reading side of one transport."""

    __slots__ = ("_loop", "_resting", "_shut", "_transport", "_wanted")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """It is open."""
        self._transport = transport
        self._loop = loop
        self._wanted = True
        self._shut = False
        self._resting = False

    @property
    def is_shut(self) -> bool:
        """Whether nothing is read now."""
        return self._shut

    def turn(self, wanted: bool) -> None:
        """Read if it is `wanted`, after the rest if there is one; else nothing until it is."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._turn()

    def rest(self, seconds: float) -> None:
        """Read nothing for so many seconds, even if it is opened."""
        if not self._resting:
            self._resting = True
            self._loop.call_later(seconds, self._rested)
            self._turn()

    def _rested(self) -> None:
        self._resting = False
        self._turn()

    def _turn(self) -> None:
        shut = self._resting or not self._wanted
        if shut == self._shut or self._transport.is_closing():
            return
        self._shut = shut
        if shut:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
