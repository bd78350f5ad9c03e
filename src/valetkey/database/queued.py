"""One queued transaction, run on a database thread, and how its outcome reaches the caller."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any

from valetkey.database.engine import Connection, DatabaseUnavailable, WorkCancelled
from valetkey.kernel import metrics
from valetkey.kernel.tracing import CALLER, HALF_CLOSED

Work = Callable[[Connection], Any]


class QueuedWork:
    """A transaction that a caller waits for: its function, the caller's future, and the outcome."""

    __slots__ = (
        "_caller",
        "_late",
        "_limited",
        "future",
        "loop",
        "problem",
        "result",
        "since",
        "work",
    )

    def __init__(self, work: Work, *, limited: bool = True) -> None:
        """Create one to be awaited on the running event loop, `limited` in time or not."""
        self._limited = limited
        self._caller = CALLER.get()
        self.since = monotonic()
        self._late = False
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.problem: BaseException | None = None

    @property
    def waits_for_lock(self) -> bool:
        """Whether its caller waits for a lock for as long as it takes; any thread may ask."""
        return not self._limited and not self.future.done()

    async def answer(self, longest: float | None) -> Any:
        """Wait at most `longest` seconds for the outcome of the work; return it or raise it.

        Raises `DatabaseUnavailable` after that time. The work is then not begun any more, and not
        committed unless its commit is already under way.
        """
        if longest is None:
            return await self.future
        timer = self.loop.call_later(longest, self._give_up, longest)
        try:
            return await self.future
        finally:
            timer.cancel()

    def _give_up(self, longest: float) -> None:
        self._late = True
        if not self.future.done():
            message = f"no answer within {longest:g} s: it may be done or not"
            self.future.set_exception(DatabaseUnavailable(message))

    def require_caller(self) -> None:
        """Raise `WorkCancelled` if nothing waits for the outcome any more.

        A client that closed only its sending half may still read: it counts as waiting for
        `HALF_CLOSED` seconds.
        """
        self.require_not_abandoned()
        caller = self._caller
        if caller is None:
            return
        now = monotonic()
        waited = now - self.since
        if waited > caller.patience or now - caller.half_closed_at > HALF_CLOSED:
            raise WorkCancelled(f"the request waited {waited:.0f} s for its turn")

    def require_not_abandoned(self) -> None:
        """Raise `WorkCancelled` if the caller was refused meanwhile, or closed the connection.

        Asked before each statement, so that a transaction without a caller holds no locks.
        """
        if self._late:
            raise WorkCancelled("the database took too long")
        caller = self._caller
        if caller is not None and caller.gone:
            raise WorkCancelled("the client closed the connection")

    def again(self) -> None:
        """Discard the outcome before the work is run again."""
        self.result = None
        self.problem = None


class group:  # noqa: N801 - reads as the statement it stands in: `with group(…):`
    """Measure a group of transactions of one `kind`: their number, waiting time and duration."""

    __slots__ = ("_began", "_kind")

    def __init__(self, kind: str, batch: Sequence[QueuedWork]) -> None:
        """Record the group's size and the wait of its first transaction; start the timer."""
        self._kind = kind
        self._began = began = monotonic()
        if batch:
            metrics.GROUP.observe(len(batch))
            metrics.DATABASE_WAIT.observe(began - batch[0].since)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        metrics.DATABASE_SECONDS.observe(monotonic() - self._began, self._kind)


def deliver_outcomes(batch: Iterable[QueuedWork]) -> None:
    """Deliver the outcomes, waking each event loop once. Any thread may call it."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[QueuedWork]] = defaultdict(list)
    for queued in batch:
        by_loop[queued.loop].append(queued)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, answered)
        except RuntimeError:
            # That loop is closed: nothing waits for these outcomes.
            continue


def _settle(answered: Iterable[QueuedWork]) -> None:
    for queued in answered:
        if queued.future.done():
            continue
        if queued.problem is None:
            queued.future.set_result(queued.result)
        elif isinstance(queued.problem, StopIteration):
            # A future cannot hold StopIteration: it would end an iteration of the caller.
            queued.future.set_exception(RuntimeError("the work raised StopIteration"))
        else:
            queued.future.set_exception(queued.problem)
