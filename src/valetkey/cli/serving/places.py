"""What a supervisor keeps about each server, and about each place in which a worker stands."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valetkey.cli.serving.unavailable import Unavailable

_FAILED = 1
_FORK = b"f"
_LAST_WORD = 1.0  # seconds


_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def collect_orphans() -> None:
    """Become the parent of descendants that lose theirs, also after `exec`, where Linux can."""
    if sys.platform == "linux":
        ctypes = import_module("ctypes")
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


class Server:
    """One server: the command of its fork server, the sockets that its workers answer, how many.

    Two arguments are added to `command`: the numbers of the sockets' descriptors, joined by
    commas, and that of the channel for orders. The first worker of each server is told to prepare,
    after those of earlier servers. With `tls` its callers expect a TLS handshake.
    """

    __slots__ = (
        "_command",
        "_environment",
        "_forker",
        "_orders",
        "_passed",
        "absent_since",
        "listening",
        "name",
        "prepared",
        "tls",
        "unavailable",
        "workers",
    )

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        listening: Sequence[int],
        workers: int,
        environment: Mapping[str, str],
        *,
        passed: Sequence[int] = (),
        tls: bool = False,
    ) -> None:
        """`listening` are the numbers of the sockets' descriptors, `passed` those of others."""
        self.name = name
        self.listening = listening
        self.workers = workers
        self.tls = tls
        self.prepared = False
        self.absent_since = monotonic()
        # While there is no worker; its module is loaded when that happens.
        self.unavailable: Unavailable | None = None
        self._command = command
        self._environment = environment
        self._forker: Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._passed = passed

    def order(self, channel: socket.socket) -> None:
        """Have a worker forked that has this end of a channel; start the fork server if needed."""
        if self._orders is None or self._forker is None or self._forker.poll() is not None:
            self._orders = self._started()
        # Where the fork server ends at this moment, the channel closes: the worker has ended too.
        with suppress(OSError):
            socket.send_fds(self._orders, [_FORK], [channel.fileno()])

    def close(self) -> None:
        """End the fork server, and let go of the listening sockets: workers still have them."""
        if self._orders is not None:
            self._orders.close()
        for number in self.listening:
            os.close(number)

    def join(self) -> None:
        """Wait until the fork server has ended; it has nothing to finish."""
        if self._forker is not None:
            try:
                self._forker.wait(_LAST_WORD)
            except TimeoutExpired:
                self._forker.kill()
                self._forker.wait()

    def _started(self) -> socket.socket:
        if self._orders is not None:
            self._orders.close()
        ours, theirs = socket.socketpair()
        with theirs:
            self._forker = Popen(
                [*self._command, ",".join(map(str, self.listening)), str(theirs.fileno())],
                pass_fds=(*self.listening, *self._passed, theirs.fileno()),
                stdin=DEVNULL,
                env=self._environment,
                # Ctrl-C reaches a terminal's whole group; the parent alone decides what it means.
                process_group=0,
            )
        return ours


class Worker:
    """A process that was forked for us, and given to us when its parent ended."""

    __slots__ = ("_pid",)

    def __init__(self, pid: int) -> None:
        """It has this number."""
        self._pid = pid

    def poll(self, *, hung_up: bool) -> int | None:
        """How it ended; None while it runs. `hung_up`: its end of the channel is closed."""
        try:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            # Not every system gives it to us: then all that is known is that it is gone.
            return _FAILED if hung_up else None
        return os.waitstatus_to_exitcode(status) if ended else None

    def send(self, number: int) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


class Place:
    """Where one worker stands at all times: the `number`th of its server."""

    __slots__ = (
        "channel",
        "due",
        "failures",
        "heard",
        "kill_at",
        "leaving",
        "number",
        "ordered",
        "ready_at",
        "replaces",
        "server",
        "told",
        "worker",
    )

    def __init__(self, server: Server, number: int, replaces: "Place | None" = None) -> None:
        """Empty; once it has a worker that is ready, the place that it `replaces` is given up."""
        self.server = server
        self.number = number
        self.replaces = replaces
        self.leaving = False
        self.failures = 0
        self.due = 0.0
        self.channel: socket.socket | None = None
        self.forget()

    def forget(self) -> None:
        """Nobody is here any more."""
        self.ordered = self.told = False
        self.ready_at: float | None = None
        self.kill_at: float | None = None
        self.heard = b""
        self.worker: Worker | None = None


def received(channel: socket.socket) -> bytes | None:
    """What there is: b"" at the end, None for nothing yet."""
    try:
        return channel.recv(4096)
    except BlockingIOError:
        return None
    except OSError:
        return b""
