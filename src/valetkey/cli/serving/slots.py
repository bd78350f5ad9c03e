"""The supervisor's records: servers with their fork servers, and slots held by workers."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valetkey.cli.serving.unavailable import Unavailable

_FAILED = 1
_FORK, _FORK_AGAIN = b"f", b"a"
_LAST_WORD = 1.0  # seconds
_MOMENT = 0.005  # seconds


_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def collect_orphans(*, ours: bool = True) -> None:
    """Adopt orphaned descendants, or no longer (Linux only); in force after `exec`, too."""
    if sys.platform == "linux":
        ctypes = import_module("ctypes")
        ctypes.CDLL(None).prctl(_SUBREAPER, int(ours), 0, 0, 0)


def collect_rest(seconds: float) -> None:
    """Collect the children that have ended or are about to, such as adopted ones."""
    until = monotonic() + seconds
    with suppress(ChildProcessError):
        while monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                sleep(_MOMENT)


class ServerProcesses:
    """One server: the command of its fork server, its listening sockets, its number of workers.

    Two arguments are appended to `command`: the descriptors of the sockets, joined by commas, and
    that of the channel for orders. The first worker of each server is ordered to prepare the
    database, after those of earlier servers. `tls` are the files of certificate and key.
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
        tls: Sequence[str] = (),
    ) -> None:
        """Set up the server; `listening` are descriptors of its sockets, `passed` any others."""
        self.name = name
        self.listening = listening
        self.workers = workers
        self.tls = tls
        self.prepared = False
        self.absent_since = monotonic()
        # Set while there is no worker; its module is loaded only then.
        self.unavailable: Unavailable | None = None
        self._command = command
        self._environment = environment
        self._forker: Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._passed = passed

    def order(self, channel: socket.socket, *, again: bool = False) -> None:
        """Order a worker with this end of a channel; start the fork server if needed.

        `again`: it takes the place of one that was ready.
        """
        # If the fork server ends at this moment, or the system is out of processes, the channel
        # closes, which reads as the worker's end: the supervisor tries again later.
        with suppress(OSError):
            if self._orders is None or self._forker is None or self._forker.poll() is not None:
                self._orders = self._started()
            word = _FORK_AGAIN if again else _FORK
            socket.send_fds(self._orders, [word], [channel.fileno()])

    def close(self, *, kill: bool = False) -> None:
        """Stop the fork server and close the listening sockets; workers keep theirs.

        `kill`: at once, so that it does not begin to carry out an order that it has.
        """
        if self._orders is not None:
            self._orders.close()
        if kill and self._forker is not None:
            self._forker.kill()
        for number in self.listening:
            os.close(number)

    def join(self) -> None:
        """Wait until the fork server has ended; it has no work to finish."""
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
                # Ctrl-C reaches the terminal's whole process group; only the supervisor acts on it.
                process_group=0,
            )
        return ours


class Worker:
    """A worker process, adopted by the supervisor when its parent ended."""

    __slots__ = ("_pid",)

    def __init__(self, pid: int) -> None:
        """Refer to process `pid`."""
        self._pid = pid

    def poll(self, *, hung_up: bool) -> int | None:
        """Return its exit code, None while it runs. `hung_up`: its end of the channel is closed."""
        try:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            # Not every system lets the supervisor adopt it: then only its end is known.
            return _FAILED if hung_up else None
        return os.waitstatus_to_exitcode(status) if ended else None

    def send(self, number: int) -> None:
        """Send the process a signal."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


class WorkerSlot:
    """The slot of one worker across restarts: the `number`th of its server."""

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

    def __init__(
        self, server: ServerProcesses, number: int, replaces: "WorkerSlot | None" = None
    ) -> None:
        """Create an empty slot; once its worker is ready, the worker it `replaces` is ended."""
        self.server = server
        self.number = number
        self.replaces = replaces
        self.leaving = False
        self.failures = 0
        self.due = 0.0
        self.channel: socket.socket | None = None
        self.clear()

    def clear(self) -> None:
        """Clear the slot: its worker has ended."""
        self.ordered = self.told = False
        self.ready_at: float | None = None
        self.kill_at: float | None = None
        self.heard = b""
        self.worker: Worker | None = None


def received(channel: socket.socket) -> bytes | None:
    """Return received bytes: b"" at the end of the stream, None if there are none yet."""
    try:
        return channel.recv(4096)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
