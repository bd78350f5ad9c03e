"""Samples of successful requests: one of each client and endpoint in every interval."""

from collections import deque
from collections.abc import Sequence
from time import perf_counter

from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.tracing import CALLER

_AT_ONCE = 2_000
_QUEUED = 10_000


class RequestSample(Struct, frozen=True):
    """A successful request of a client; `endpoint` is a path pattern, never a path as sent."""

    client_id: str
    at: Instant
    method: str
    endpoint: str
    status: int
    milliseconds: int
    """From the complete request to the response."""
    grant_type: str = ""
    scope: str = ""
    """The scopes that were granted or used, separated by spaces."""
    request_id: str = ""
    """The id of the request in the log."""


class RequestSamples:
    """Samples waiting to be written, with the keys of those already taken in this interval.

    At most 2,000 are taken in an interval and 10,000 wait; beyond that the oldest are dropped.
    Those not yet written are lost when the process is killed.
    """

    __slots__ = ("_begins", "_ends", "_taken", "_waiting", "every")

    def __init__(self, every: int = 60) -> None:
        """Take a sample every so many seconds; none for 0."""
        self.every = every
        self._begins = self._ends = 0
        self._taken: set[tuple[str, str, str, str]] = set()
        self._waiting: deque[RequestSample] = deque(maxlen=_QUEUED)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def due(
        self, client_id: str, method: str, endpoint: str, at: Instant, grant_type: str = ""
    ) -> bool:
        """Return whether this request is the first of its kind in this interval; call `add` then.

        Called for every successful request.
        """
        if not self.every:
            return False
        if not self._begins <= at < self._ends:
            self._taken.clear()
            self._begins = at - at % self.every
            self._ends = self._begins + self.every
        key = (client_id, method, endpoint, grant_type)
        if key in self._taken or len(self._taken) >= _AT_ONCE:
            return False
        self._taken.add(key)
        return True

    def add(
        self,
        client_id: str,
        method: str,
        endpoint: str,
        at: Instant,
        *,
        status: int = 200,
        grant_type: str = "",
        scope: str = "",
    ) -> None:
        """Queue a sample of the current request."""
        caller = CALLER.get()
        took, request_id = 0.0, ""
        if caller is not None:
            took, request_id = perf_counter() - caller.complete_at, caller.request_id
        milliseconds = min(round(took * 1_000), 1_000_000)
        self._waiting.append(
            RequestSample(
                client_id, at, method, endpoint, status, milliseconds, grant_type, scope, request_id
            )
        )

    def add_samples(self, samples: Sequence[RequestSample]) -> None:
        """Queue samples that another process took."""
        if self.every:
            self._waiting.extend(samples)

    def drain(self, most: int) -> Sequence[RequestSample]:
        """Remove and return at most `most` queued samples, oldest first."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def give_back(self, samples: Sequence[RequestSample]) -> None:
        """Queue samples again, the newest first as far as there is room."""
        room = _QUEUED - len(self._waiting)
        self._waiting.extendleft(tuple(reversed(samples))[:room])
