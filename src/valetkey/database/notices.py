"""What engines report to the log: slow statements, refused connections, another host."""

from collections.abc import Callable
from math import inf

Tell = Callable[[str, str, str], object]
"""Receives a level, the name of the event and its cause; any thread calls it."""

_LONGEST = 500


class Notices:
    """The receiver of notices in this process; without one nothing is measured or remembered."""

    __slots__ = ("_host", "_tell", "slow")

    def __init__(self) -> None:
        """Start without a receiver."""
        self.slow = inf
        """Seconds from which on a statement is reported."""
        self._tell: Tell | None = None
        self._host = ""

    def begin(self, tell: Tell, slow: float) -> None:
        """Report to `tell`, and statements that take `slow` seconds or more."""
        self._tell, self.slow, self._host = tell, slow, ""

    def took(self, what: str, seconds: float) -> None:
        """Report a statement, or a commit, that was slow; its text has no values."""
        if self._tell is not None:
            self._tell("warning", "database.slow", f"{seconds:.1f} s: {what[:_LONGEST]}")

    def connected(self, host: str) -> None:
        """Report a connection to another host than the one before."""
        if self._tell is not None:
            before, self._host = self._host, host
            if before not in {"", host}:
                self._tell("warning", "database.failover", f"from {before} to {host}")

    def refused(self, why: str) -> None:
        """Report a connection that could not be opened beside others that are open."""
        if self._tell is not None:
            self._tell("warning", "database.connection_refused", why[:_LONGEST])


NOTICES = Notices()
