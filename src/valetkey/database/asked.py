"""One transaction that waits for its turn on another thread, and how its caller hears of it."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any

from valetkey.database.engine import Connection, DatabaseUnavailable, GivenUp
from valetkey.kernel import metrics
from valetkey.kernel.waiting import CALLER, HALF_CLOSED

Work = Callable[[Connection], Any]


class Asked:
    """A transaction somebody waits for: what to run, whom to tell, and then how it went."""

    __slots__ = ("_caller", "_late", "future", "loop", "problem", "result", "since", "work")

    def __init__(self, work: Work) -> None:
        """Make one to be awaited on the event loop that runs now."""
        self._caller = CALLER.get()
        self.since = monotonic()
        self._late = False
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.problem: BaseException | None = None

    async def answer(self, longest: float | None) -> Any:
        """Wait for what the work returned or raised; no longer than `longest` seconds.

        Raises `DatabaseUnavailable` then. The work is not begun any more, and not committed unless
        its commit is already under way.
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
        """Raise `GivenUp` where nobody waits for the answer any more.

        A client that has closed only its own half of the connection may still read: for
        `HALF_CLOSED` seconds it is taken for one of those.
        """
        if self._late:
            raise GivenUp("the database took too long")
        caller = self._caller
        if caller is None:
            return
        if caller.gone:
            raise GivenUp("the client closed the connection")
        now = monotonic()
        waited = now - self.since
        if waited > caller.patience or now - caller.half_closed_at > HALF_CLOSED:
            raise GivenUp(f"the request waited {waited:.0f} s for its turn")

    def again(self) -> None:
        """Forget how it went: it is going to be run a second time."""
        self.result = None
        self.problem = None


class group:  # noqa: N801 - reads as the statement it stands in: `with group(…):`
    """Measure a group of transactions of one `kind`: how many, how long they waited and took."""

    __slots__ = ("_began", "_kind")

    def __init__(self, kind: str, batch: Sequence[Asked]) -> None:
        """Measure from now on."""
        self._kind = kind
        self._began = began = monotonic()
        if batch:
            metrics.GROUP.observe(len(batch))
            metrics.DATABASE_WAIT.observe(began - batch[0].since)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        metrics.DATABASE_SECONDS.observe(monotonic() - self._began, self._kind)


def tell(batch: Iterable[Asked]) -> None:
    """Answer every caller, waking each event loop once. Any thread may call it."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Asked]] = defaultdict(list)
    for asked in batch:
        by_loop[asked.loop].append(asked)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, answered)
        except RuntimeError:
            # That loop is closed: nobody is left to hear it.
            continue


def _settle(answered: Iterable[Asked]) -> None:
    for asked in answered:
        if asked.future.done():
            continue
        if asked.problem is None:
            asked.future.set_result(asked.result)
        elif isinstance(asked.problem, StopIteration):
            # A future cannot carry it: it would end the caller's own iteration.
            asked.future.set_exception(RuntimeError("the work raised StopIteration"))
        else:
            asked.future.set_exception(asked.problem)
