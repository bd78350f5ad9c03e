"""The threads that talk to PostgreSQL, a connection each, and what waits for them."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from valetkey.database.asked import Asked, Work, group, tell
from valetkey.database.engine import DatabaseUnavailable, GivenUp, Overloaded, Timeouts
from valetkey.database.postgres_channel import Channel
from valetkey.database.postgres_session import Kind, Session
from valetkey.kernel import metrics

_LONGEST_QUEUE = 2_000
_MOST_SCANS = 32
_LARGEST_GROUP = 32
_GROUPED = (Kind.LOOK, Kind.READ, Kind.WRITE)


class Pool:
    """Runs transactions on `size` threads; several in one when more wait than threads are free.

    A thread starts with the first transaction that finds none free. Those of one kind are run
    in the order in which they came.
    """

    def __init__(
        self,
        told: Mapping[str, str],
        size: int,
        timeouts: Timeouts,
        revised: Callable[[], None],
    ) -> None:
        """Connect as `told`; `revised` is called after a write to table `revision`."""
        self._told = told
        self._timeouts = timeouts
        self._size = size
        self._revised = revised
        self._turn = threading.Condition()
        # What waits, each with its place in the order of arrival.
        self._waiting: dict[Kind, deque[tuple[int, Asked]]] = {kind: deque() for kind in Kind}
        self._arrivals = 0
        # Threads that wait and have not been woken.
        self._idle = 0
        self._scanning = 0
        self._closed = False
        self.refused = ""
        self.failures = 0
        # Connections on which a commit waits: for a standby that is gone, or a server that is
        # frozen. Closed, each would leave a process behind in a server that waits, until it takes
        # no more connections.
        self._unconfirmed: list[Channel] = []
        self._threads: list[threading.Thread] = []
        metrics.POOL.ask(lambda: self._idle, "idle")
        metrics.POOL.ask(lambda: len(self._threads) - self._idle, "busy")
        metrics.POOL.set(size, "limit")
        for kind in Kind:
            metrics.QUEUE.ask(self._waiting[kind].__len__, f"database_{kind.name.lower()}")

    async def run(self, kind: Kind, work: Work) -> Any:
        """Run `work`. Raises `Overloaded` when 2,000 of its kind wait, or 32 reports."""
        asked = Asked(work)
        with self._turn:
            if self._closed:
                raise DatabaseUnavailable("the database is closed")
            if self.refused:
                raise DatabaseUnavailable(self.refused)
            if kind is Kind.WRITE and self._confirms_nothing():
                self.failures += 1
                raise DatabaseUnavailable("PostgreSQL does not confirm commits: is a standby gone?")
            waiting = self._waiting[kind]
            if len(waiting) >= (_MOST_SCANS if kind is Kind.SCAN else _LONGEST_QUEUE):
                raise Overloaded("too many transactions wait")
            self._arrivals += 1
            waiting.append((self._arrivals, asked))
            if self._idle:
                self._idle -= 1
                self._turn.notify()
            elif len(self._threads) < self._size:
                self._start_thread()
        try:
            return await asked.answer(kind.limit(self._timeouts))
        except GivenUp:
            raise
        except DatabaseUnavailable:
            self.failures += kind is Kind.WRITE
            metrics.DATABASE_FAILURES.add()
            raise

    def close(self) -> None:
        """Finish what waits, then disconnect. Blocks; call it from a thread that may."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()
        for channel in self._unconfirmed:
            channel.close()

    def _keep_unconfirmed(self, channel: Channel) -> None:
        with self._turn:
            self._unconfirmed.append(channel)

    def _confirms_nothing(self) -> bool:
        """Whether as many commits as there are threads have had no answer yet."""
        if len(self._unconfirmed) < self._size:
            return False
        for channel in [each for each in self._unconfirmed if not each.is_silent()]:
            self._unconfirmed.remove(channel)
            channel.close()
        return len(self._unconfirmed) >= self._size

    def _start_thread(self) -> None:
        name = f"valetkey-postgres-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        session = Session(self._told, self._timeouts, self._revised, self._keep_unconfirmed)
        while (taken := self._take()) is not None:
            kind, batch = taken
            try:
                with group(kind.name.lower(), batch):
                    session.run(kind, batch)
            except Exception as problem:  # noqa: BLE001 - a thread that dies leaves callers waiting
                session.close()
                for asked in batch:
                    asked.problem = problem
                tell(batch)
            finally:
                if kind is Kind.SCAN:
                    with self._turn:
                        self._scanning -= 1
        session.close()

    def _take(self) -> tuple[Kind, list[Asked]] | None:
        """What this thread is to do next, waiting for it; None when all is done and closed."""
        with self._turn:
            while (kind := self._next()) is None:
                if self._closed:
                    return None
                self._idle += 1
                self._turn.wait()
            waiting = self._waiting[kind]
            count = 1
            if kind in _GROUPED and len(waiting) > self._idle + 1:
                # Half, so that the next thread has work too, and the one after that.
                count = min(_LARGEST_GROUP, -(-len(waiting) // 2))
            batch = [waiting.popleft()[1] for _ in range(count)]
            if kind is Kind.SCAN:
                self._scanning += 1
        # A caller that has gone, or was told that it took too long, wants nothing any more.
        return kind, [asked for asked in batch if not asked.future.done()]

    def _next(self) -> Kind | None:
        """The kind of which one has waited longest. Reports never take every connection."""
        ready = [kind for kind, waiting in self._waiting.items() if waiting]
        if self._scanning >= max(1, self._size // 2) and Kind.SCAN in ready:
            ready.remove(Kind.SCAN)
        return min(ready, key=lambda kind: self._waiting[kind][0][0], default=None)
