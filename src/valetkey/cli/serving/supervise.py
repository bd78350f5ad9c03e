"""Supervision: the processes that answer, started in order, started again, stopped together.

Each child has one end of a socket pair. It waits there for `go`, says `prepared` and `ready`,
and ends when the other end closes: that is how no child outlives its parent, however that dies.

This module is the whole of the process that supervises, which does nothing for as long as all is
well. So it imports next to nothing: what it would need to speak is loaded when it has to.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from selectors import EVENT_READ, DefaultSelector
from subprocess import DEVNULL, Popen
from time import monotonic

_GRACE = 15.0  # seconds for requests under way, before a child is killed
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 30.0
_STEADY = 60.0  # seconds after which an earlier crash is forgotten
_LAST_WORD = 1.0  # seconds for what a child said before it ended
_FAILED = 1
STOPS = (signal.SIGTERM, signal.SIGINT)
"""The signals that end a supervisor; whoever starts one may hold them back until it runs."""


class Server:
    """One server: the command of a child, the sockets that all of them answer, how many.

    Two arguments are added to `command`: the numbers of the sockets' descriptors, joined by
    commas, and that of the control channel's. The first child of each server is told to prepare,
    after those of earlier servers.
    """

    __slots__ = ("command", "environment", "listening", "name", "passed", "prepared", "workers")

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        listening: Sequence[int],
        workers: int,
        environment: Mapping[str, str],
        passed: Sequence[int] = (),
    ) -> None:
        """`listening` are the numbers of the sockets' descriptors, `passed` those of others."""
        self.name = name
        self.command = command
        self.listening = listening
        self.workers = workers
        self.environment = environment
        self.passed = passed
        self.prepared = False


class _Place:
    """Where one child stands at all times: the `worker`th of its server."""

    __slots__ = ("began", "channel", "child", "delay", "due", "heard", "server", "told", "worker")

    def __init__(self, server: Server, worker: int, delay: float) -> None:
        self.server = server
        self.worker = worker
        self.delay = delay
        self.due = 0.0
        self.began = 0.0
        self.told = False
        self.heard = b""
        self.child: Popen[bytes] | None = None
        self.channel: socket.socket | None = None


class Supervisor:
    """Runs servers until it is told to stop; `announce` is called once, when all are ready."""

    def __init__(
        self,
        servers: Sequence[Server],
        announce: Callable[[], None],
        *,
        grace: float = _GRACE,
        first_delay: float = _FIRST_DELAY,
        level: str = "info",
        style: str = "auto",
    ) -> None:
        """Start nothing yet; `grace` and `first_delay` are in seconds.

        Of `level` and in `style` is what the log says of children that ended.
        """
        self._servers = servers
        self._announce = announce
        self._grace = grace
        self._first_delay = first_delay
        self._level = level
        self._style = style
        # On one core two take as long together as one after the other, and the first is there in
        # half the time.
        self._in_turn = _cores() == 1
        self._places = [_Place(s, n, first_delay) for s in servers for n in range(s.workers)]
        self._were_ready: set[_Place] = set()
        self._stopping = False
        self._kill_at: float | None = None
        self._code = 0
        self._selector = DefaultSelector()
        self._asked = 0
        self._woken, self._wakes = socket.socketpair()
        self._woken.setblocking(False)
        self._wakes.setblocking(False)

    def run(self) -> int:
        """What the shell is to learn: 0 after a stop, a child's code if the start failed."""
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        for number in STOPS:
            signal.signal(number, self.stop)
        signal.signal(signal.SIGCHLD, _woken)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        self._selector.register(self._woken, EVENT_READ)
        try:
            while not self._stopping or any(self._alive()):
                self._turn()
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            self._selector.close()
        return self._code

    def stop(self, *_: object) -> None:
        """Have `run` end; a second call does not wait for requests under way.

        Any thread may call it, and so may a signal.
        """
        self._asked += 1
        # Where there is no room for another byte, one is on its way.
        with suppress(BlockingIOError):
            self._wakes.send(b"!")

    def _turn(self) -> None:
        """Do what is to be done, and wait for what comes next."""
        self._start_what_is_due()
        self._tell_whose_turn_it_is()
        for key, _ in self._selector.select(self._patience()):
            if isinstance(key.data, _Place):
                self._listen(key.data)
            else:
                _received(self._woken)
        if self._asked:
            self._stop()
        for place in self._places:
            self._look_after(place)
        if self._asked > 1:
            # Asked twice: whoever asks does not want to wait.
            for child in self._alive():
                child.kill()
        self._kill_who_is_late()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._kill_at = monotonic() + self._grace
            for child in self._alive():
                child.terminate()

    def _alive(self) -> Iterator[Popen[bytes]]:
        return (place.child for place in self._places if place.child is not None)

    def _patience(self) -> float | None:
        """Seconds until something is due; None while there is nothing to wait for but news."""
        due = [p.due for p in self._places if self._may_start(p)]
        if self._kill_at is not None:
            due.append(self._kill_at)
        return max(0.0, min(due) - monotonic()) if due else None

    def _start_what_is_due(self) -> None:
        for place in self._places:
            if self._may_start(place) and place.due <= monotonic():
                self._start(place)

    def _may_start(self, place: _Place) -> bool:
        if place.child is not None or self._stopping:
            return False
        before = self._servers[: self._servers.index(place.server)] if self._in_turn else ()
        return all(p in self._were_ready for p in self._places if p.server in before)

    def _start(self, place: _Place) -> None:
        server = place.server
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            place.child = Popen(
                [*server.command, ",".join(map(str, server.listening)), str(theirs.fileno())],
                pass_fds=(*server.listening, *server.passed, theirs.fileno()),
                stdin=DEVNULL,
                env=server.environment,
                # Ctrl-C reaches a terminal's whole group; the parent alone decides what it means.
                process_group=0,
            )
        place.channel, place.told, place.heard = ours, False, b""
        place.began = monotonic()
        self._selector.register(ours, EVENT_READ, place)

    def _listen(self, place: _Place) -> bool:
        """Take in what the child there says; whether more may come."""
        if place.channel is None:
            return False
        said = _received(place.channel)
        if said == b"":
            self._selector.unregister(place.channel)
            place.channel.close()
            place.channel = None
            return False
        *words, place.heard = (place.heard + (said or b"")).split(b"\n")
        for word in words:
            if word == b"prepared":
                place.server.prepared = True
            elif word == b"ready":
                self._arrived(place)
        return True

    def _arrived(self, place: _Place) -> None:
        news = place not in self._were_ready
        self._were_ready.add(place)
        if news and len(self._were_ready) == len(self._places) and not self._stopping:
            self._announce()

    def _tell_whose_turn_it_is(self) -> None:
        for place in self._places:
            if place.channel is not None and not place.told and self._is_turn_of(place):
                place.told = True
                prepares = " prepare" if place.worker == 0 else ""
                try:
                    place.channel.sendall(f"go {place.worker}{prepares}\n".encode())
                except OSError:
                    continue  # it has ended, and that is noticed by itself

    def _is_turn_of(self, place: _Place) -> bool:
        # The resource server's credential is made when the authorization server prepares.
        for earlier in self._servers:
            if earlier is place.server:
                return place.worker == 0 or earlier.prepared
            if not earlier.prepared:
                return False
        return False

    def _look_after(self, place: _Place) -> None:
        """Notice a child that has ended, and decide what that means."""
        child = place.child
        code = None if child is None else child.poll()
        if code is None:
            return
        # What it said last may still be on its way; its end of the channel is closed by now.
        if place.channel is not None:
            place.channel.settimeout(_LAST_WORD)
        while self._listen(place):
            pass
        place.child = None
        if place not in self._were_ready and not self._stopping:
            import_module("valetkey.cli.say").error(f"the {place.server.name} server did not start")
            self._code = code if code > 0 else _FAILED
            self._stop()
        elif place not in self._were_ready:
            # What failed first may have failed because of this one, whose code then says more.
            self._code = max(self._code, code)
        elif not self._stopping:
            self._plan_restart(place)

    def _plan_restart(self, place: _Place) -> None:
        now = monotonic()
        if now - place.began > _STEADY:
            place.delay = self._first_delay
        place.due = now + place.delay
        name, number = place.server.name, place.worker
        self._log("worker.restarting", server=name, worker=number, delay_seconds=place.delay)
        place.delay = min(place.delay * 2, _LONGEST_DELAY)

    def _kill_who_is_late(self) -> None:
        late = list(self._alive())
        if self._kill_at is not None and late and monotonic() >= self._kill_at:
            self._kill_at = None
            self._log("worker.killed", workers=len(late))
            for child in late:
                child.kill()

    def _log(self, event: str, **fields: str | float) -> None:
        log = import_module("valetkey.web.log")
        log.set_up(self._level, self._style)
        log.error(event, **fields)


def _cores() -> int:
    # Not every system tells which of them a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _woken(*_: object) -> None:
    """What a signal without a meaning of its own does: the wait ends, and we look around."""


def _received(channel: socket.socket) -> bytes | None:
    """What there is: b"" at the end, None for nothing yet."""
    try:
        return channel.recv(4096)
    except BlockingIOError:
        return None
    except OSError:
        return b""
