"""Supervision: start workers in order, restart them, reload them, and stop them together.

Each server has a fork server, from which its workers are forked (see `await_fork`). Each worker
has one end of a socket pair. It reports its process id there, waits for `go`, reports `prepared`
and `ready`, and ends when the other end closes; so no worker outlives its supervisor, however that
ends.

The supervisor process loads this module and little else. It is idle while all is well, so it
imports very little: what it needs to report a problem is loaded when there is one.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from selectors import EVENT_READ, DefaultSelector
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
        "answerable",
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
        silent: Sequence[int] = (),
    ) -> None:
        """Set up the server; `listening` are descriptors of its sockets, `passed` any others.

        At those in `silent`, connections wait while no worker is ready: only workers know the
        certificates.
        """
        self.name = name
        self.listening = listening
        self.workers = workers
        self.tls = tls
        self.answerable = [descriptor for descriptor in listening if descriptor not in silent]
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
        "go_sent",
        "heard",
        "kill_at",
        "leaving",
        "number",
        "ordered",
        "ready_at",
        "replaces",
        "server",
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
        self.ordered = self.go_sent = False
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


def ends_with_terminal() -> bool:
    """Return whether servers started here end when the terminal closes: not under nohup(1)."""
    return has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


_GRACE = 15.0  # seconds for requests under way, before a worker is killed
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 30.0
_FORK_DELAY = 2.0  # seconds at most until a fork is ordered again that the system refused
_TOO_SHORT = 0.2  # seconds: a worker that ends so soon after it was ready may do so each time
_TOO_OFTEN = 5  # such ends in a row, after which a worker has to wait before it starts again
_UNAVAILABLE_AFTER = 1.0  # seconds without a worker during which connections wait for the next one
_UNAVAILABLE_AT_START = 10.0  # the same for the first worker, where the socket listens already
_SWEEP = 0.2  # seconds between two rounds of answering 503
STOPS = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop a supervisor; its starter may block them until it runs."""


def _nothing(*_: object) -> None:
    """Do nothing: a signal only ends the wait, and the loop then checks everything."""


class Supervisor:
    """Runs servers until it is stopped; `announce` is called once, when all are ready."""

    def __init__(
        self,
        servers: Sequence[ServerProcesses],
        announce: Callable[[], None],
        *,
        on_stop: Callable[[], None] = _nothing,
        grace: float = _GRACE,
        first_delay: float = _FIRST_DELAY,
        level: str = "info",
        style: str = "auto",
        recheck: Callable[[], "Popen[bytes]"] | None = None,
        terminal: bool = False,
        passes_on: bool = False,
    ) -> None:
        """Start nothing yet; `grace` and `first_delay` are in seconds.

        `on_stop` is called once, before the workers are stopped. `level` and `style` are used to
        log workers that ended. `recheck` starts the process that checks a changed configuration:
        exit code 0 means that it can be used. `terminal`: it ends when its terminal is closed.
        `passes_on`: SIGHUP is passed on to the workers, which read their configurations again.
        """
        self._servers = servers
        self._announce = announce
        self._on_stop = on_stop
        self._grace = grace
        self._first_delay = first_delay
        self._level = level
        self._style = style
        self._recheck = recheck
        self._terminal = terminal
        self._passes_on = passes_on
        # On one core, starting two servers together takes as long as one after the other, and the
        # first one is ready in half the time.
        self._in_turn = _cores() == 1
        self._slots = [WorkerSlot(s, n) for s in servers for n in range(s.workers)]
        self._were_ready: set[tuple[ServerProcesses, int]] = set()
        self._to_replace: list[WorkerSlot] = []
        self._checking: Popen[bytes] | None = None
        self._reload_asked = False
        self._announced = False
        self._stopping = False
        self._code = 0
        self._selector = DefaultSelector()
        self._asked = 0
        self._stop_signal = int(signal.SIGTERM)
        self._woken, self._wakes = socket.socketpair()
        self._woken.setblocking(False)
        self._wakes.setblocking(False)

    def run(self) -> int:
        """Run until stopped; return 0, or a worker's exit code if the start failed."""
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        for number in STOPS:
            signal.signal(number, self.stop)
        if self._recheck is not None or self._passes_on:
            signal.signal(signal.SIGHUP, self.reload)
        signal.signal(signal.SIGCHLD, _nothing)
        held_back = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        self._selector.register(self._woken, EVENT_READ)
        try:
            while not self._stopping or any(self._running()):
                self._turn()
        finally:
            # Another signal must not interrupt what the starter still has to clean up.
            signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
            signal.set_wakeup_fd(-1)
            self._selector.close()
        for server in self._servers:
            server.join()
        collect_rest(_LAST_WORD)
        return self._code

    def stop(self, number: int = signal.SIGTERM, *_: object) -> None:
        """Make `run` end; SIGINT skips draining, and a second call kills the workers at once.

        May be called from any thread and as a signal handler: it takes no lock.
        """
        self._asked += 1
        self._stop_signal = number
        self._wake()

    def reload(self, *_: object) -> None:
        """Replace every worker by one with the current configuration, if that is valid."""
        if self._terminal and not has_terminal():
            # SIGHUP of the system: the terminal was closed.
            self.stop()
            return
        self._reload_asked = True
        self._wake()

    def _wake(self) -> None:
        # A full buffer already contains a wake-up.
        with suppress(BlockingIOError):
            self._wakes.send(b"!")

    def _turn(self) -> None:
        """Do what is due, then wait for the next event."""
        self._start_what_is_due()
        self._send_turns()
        for key, _ in self._selector.select(self._seconds_until_due()):
            if isinstance(key.data, WorkerSlot):
                self._listen(key.data)
            elif not isinstance(key.data, ServerProcesses):
                received(self._woken)
        if self._asked:
            self._stop()
        for slot in list(self._slots):
            self._handle_exit(slot)
        if self._asked > 1:
            # A second request to stop does not wait for the workers.
            for slot in self._running():
                self._send(slot, signal.SIGKILL)
        self._go_on_reloading()
        self._serve_unavailable()
        self._kill_overdue()

    def _stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._on_stop()
        for slot in self._running():
            self._end(slot, self._stop_signal)
        for server in self._servers:
            # Only workers decide when the sockets close: no connection may wait in the supervisor's
            # queue.
            self._take_back(server)
            server.close(kill=any(s.server is server and s.worker is None for s in self._running()))

    def _end(self, slot: WorkerSlot, number: int) -> None:
        slot.leaving = True
        slot.kill_at = monotonic() + self._grace
        if slot.worker is not None:
            slot.worker.send(number)
        elif slot.channel is not None:
            # It is being forked, and ends when it finds its channel closed, which also shows here.
            with suppress(OSError):
                slot.channel.shutdown(socket.SHUT_WR)

    def _send(self, slot: WorkerSlot, number: int) -> None:
        if slot.worker is not None:
            slot.worker.send(number)

    def _running(self) -> Iterator[WorkerSlot]:
        return (slot for slot in self._slots if slot.ordered)

    def _seconds_until_due(self) -> float | None:
        """Return the seconds until something is due; None if only an event can change that."""
        due = [slot.due for slot in self._slots if self._may_start(slot)]
        due += [slot.kill_at for slot in self._slots if slot.kill_at is not None]
        for server in self._servers:
            if server.unavailable is not None:
                due.append(monotonic() + _SWEEP)
            elif not self._stopping and not self._has_worker(server):
                due.append(self._unavailable_at(server))
        return max(0.0, min(due) - monotonic()) if due else None

    def _start_what_is_due(self) -> None:
        for slot in self._slots:
            if self._may_start(slot) and slot.due <= monotonic():
                self._start(slot)

    def _may_start(self, slot: WorkerSlot) -> bool:
        if slot.ordered or slot.leaving or self._stopping:
            return False
        before = self._servers[: self._servers.index(slot.server)] if self._in_turn else ()
        return all((s, n) in self._were_ready for s in before for n in range(s.workers))

    def _start(self, slot: WorkerSlot) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            slot.server.order(theirs, again=(slot.server, slot.number) in self._were_ready)
        slot.ordered = True
        slot.channel = ours
        self._selector.register(ours, EVENT_READ, slot)

    def _listen(self, slot: WorkerSlot) -> bool:
        """Handle the worker's messages; return whether more may come."""
        if slot.channel is None:
            return False
        message = received(slot.channel)
        if message == b"":
            self._hang_up(slot)
            return False
        *lines, slot.heard = (slot.heard + (message or b"")).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"born":
                slot.worker = Worker(int(number))
                if slot.leaving:
                    slot.worker.send(self._stop_signal)
            elif word == b"prepared":
                slot.server.prepared = True
            elif word == b"ready":
                self._arrived(slot)
        return True

    def _hang_up(self, slot: WorkerSlot) -> None:
        if slot.channel is not None:
            self._selector.unregister(slot.channel)
            slot.channel.close()
            slot.channel = None

    def _arrived(self, slot: WorkerSlot) -> None:
        slot.ready_at = monotonic()
        self._were_ready.add((slot.server, slot.number))
        if self._passes_on:
            # A request that came while it started was not passed on to it.
            self._send(slot, signal.SIGHUP)
        if (old := slot.replaces) is not None:
            slot.replaces = None
            if old.ordered:
                self._end(old, signal.SIGUSR1)
            else:
                # It ended meanwhile and waits for its restart, which is not needed any more.
                self._slots.remove(old)
        everyone = sum(server.workers for server in self._servers)
        if not self._announced and len(self._were_ready) == everyone and not self._stopping:
            self._announced = True
            self._announce()

    def _send_turns(self) -> None:
        for slot in self._slots:
            if slot.channel is not None and not slot.go_sent and self._is_turn_of(slot):
                slot.go_sent = True
                prepares = " prepare" if slot.number == 0 else ""
                try:
                    slot.channel.sendall(f"go {slot.number}{prepares}\n".encode())
                except OSError:
                    continue  # The worker has ended, which is noticed separately.

    def _is_turn_of(self, slot: WorkerSlot) -> bool:
        # Preparing the authorization server creates the resource server's credential.
        for earlier in self._servers:
            if earlier is slot.server:
                return slot.number == 0 or earlier.prepared
            if not earlier.prepared:
                return False
        return False

    def _handle_exit(self, slot: WorkerSlot) -> None:
        """Notice a worker that has ended, and decide what follows."""
        if not slot.ordered:
            return
        if slot.worker is not None:
            code = slot.worker.poll(hung_up=slot.channel is None)
        else:
            code = _FAILED if slot.channel is None else None
        if code is None:
            return
        # Its last message may still be unread; its end of the channel is closed by now.
        if slot.channel is not None:
            slot.channel.settimeout(_LAST_WORD)
        while self._listen(slot):
            pass
        was_ready_at, born = slot.ready_at, slot.worker is not None
        slot.clear()
        self._ended(slot, code, was_ready_at, born=born)

    def _ended(
        self, slot: WorkerSlot, code: int, was_ready_at: float | None, *, born: bool
    ) -> None:
        if slot.replaces is not None:
            self._to_replace.clear()
            self._slots.remove(slot)
            if not self._stopping:
                self._log("reload.failed", server=slot.server.name, worker=slot.number)
        elif slot.leaving and not self._stopping:
            self._slots.remove(slot)
        elif self._stopping:
            # The first failure may be a consequence of this one, whose exit code is then more
            # useful.
            if born and was_ready_at is None and (slot.server, slot.number) not in self._were_ready:
                self._code = max(self._code, code)
        elif (slot.server, slot.number) not in self._were_ready:
            import_module("valetkey.cli.say").error(f"the {slot.server.name} server did not start")
            self._code = code if code > 0 else _FAILED
            self._stop()
        else:
            self._plan_restart(slot, code, was_ready_at, _LONGEST_DELAY if born else _FORK_DELAY)

    def _plan_restart(
        self, slot: WorkerSlot, code: int, was_ready_at: float | None, longest: float
    ) -> None:
        """Restart the worker at once, or with a growing delay if it fails repeatedly."""
        now = monotonic()
        steady = was_ready_at is not None and now - was_ready_at > _TOO_SHORT
        slot.failures = 0 if steady else slot.failures + 1
        too_many = slot.failures - (0 if was_ready_at is None else _TOO_OFTEN)
        delay = self._first_delay * 2 ** min(too_many - 1, 30) if too_many > 0 else 0.0
        delay = min(delay, longest)
        slot.due = now + delay
        if not self._has_worker(slot.server):
            slot.server.absent_since = now
        name, number = slot.server.name, slot.number
        ended = {"exit_code": code} if code >= 0 else {"signal": signal.Signals(-code).name}
        self._log("worker.restarting", server=name, worker=number, delay_seconds=delay, **ended)

    def _go_on_reloading(self) -> None:
        if self._checking is not None and (code := self._checking.poll()) is not None:
            self._checking = None
            if code == 0:
                self._to_replace = [slot for slot in self._slots if not slot.leaving]
        if self._stopping:
            return
        if self._reload_asked and self._passes_on:
            self._pass_on()
        if self._reload_asked and self._checking is None and self._recheck is not None:
            self._reload_asked = False
            try:
                self._checking = self._recheck()
            except OSError as failure:
                self._log("reload.failed", reason=str(failure))
        # One after the other, so that there is rarely more than one additional worker.
        if not any(slot.replaces for slot in self._slots):
            # One that has not begun reads the new configuration; one that begins may have read the
            # old one, so it stays in the list until it is ready.
            self._to_replace = [p for p in self._to_replace if p.ordered and not p.leaving]
            old = next((slot for slot in self._to_replace if slot.ready_at is not None), None)
            if old is not None:
                self._to_replace.remove(old)
                self._slots.append(WorkerSlot(old.server, old.number, old))
                self._wake()

    def _pass_on(self) -> None:
        self._reload_asked = False
        for slot in self._running():
            if slot.ready_at is not None:
                self._send(slot, signal.SIGHUP)

    def _has_worker(self, server: ServerProcesses) -> bool:
        return any(p.server is server and p.ready_at and not p.leaving for p in self._slots)

    def _serve_unavailable(self) -> None:
        """Answer 503 on the sockets of servers that have no worker."""
        for server in self._servers:
            if self._stopping or self._has_worker(server):
                self._take_back(server)
            elif server.unavailable is not None:
                server.unavailable.answer()
            elif monotonic() >= self._unavailable_at(server):
                module = import_module("valetkey.cli.serving.unavailable")
                unavailable = module.Unavailable(server.answerable, server.tls)
                server.unavailable = unavailable
                self._selector.register(unavailable, EVENT_READ, server)

    def _unavailable_at(self, server: ServerProcesses) -> float:
        patience = _UNAVAILABLE_AFTER if self._announced else _UNAVAILABLE_AT_START
        return server.absent_since + patience

    def _take_back(self, server: ServerProcesses) -> None:
        if server.unavailable is not None:
            self._selector.unregister(server.unavailable)
            server.unavailable.close()
            server.unavailable = None

    def _kill_overdue(self) -> None:
        now = monotonic()
        late = [p for p in self._running() if p.kill_at is not None and now >= p.kill_at]
        if late:
            self._log("worker.killed", workers=len(late))
        for slot in late:
            slot.kill_at = None
            self._send(slot, signal.SIGKILL)
            if slot.worker is None:
                self._hang_up(slot)

    def _log(self, event: str, **fields: str | float) -> None:
        log = import_module("valetkey.web.log")
        log.set_up(self._level, self._style)
        log.error(event, **fields)


def _cores() -> int:
    # Not every system reports which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
