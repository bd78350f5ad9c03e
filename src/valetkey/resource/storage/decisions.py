"""Decision records: why a request was refused; written after the response, kept a week."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from valetkey.database.engine import Connection
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import fresh_reference

REMEMBERED = days(7)
"""How long a decision record is kept."""

_QUEUED = 10_000
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Decision:
    """The check that refused, and its expected and received values; never secrets."""

    reference: str
    at: Instant
    endpoint: str
    code: str
    check: str
    description: str
    expected: str
    received: str
    client_id: str | None
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decision records, found by the reference in the error response."""

    db: Connection

    def add(self, decision: Decision) -> None:
        """Insert the record; it is kept until it expires."""
        self.db.send(
            "INSERT INTO decisions (reference, at, endpoint, code, checked, description, expected,"
            " received, client_id, expires_at)"
            " VALUES (:reference, :at, :endpoint, :code, :checked, :description, :expected,"
            " :received, :client_id, :expires_at) ON CONFLICT (reference) DO NOTHING",
            reference=decision.reference,
            at=decision.at,
            endpoint=decision.endpoint,
            code=decision.code,
            checked=decision.check,
            description=decision.description,
            expected=decision.expected,
            received=decision.received,
            client_id=decision.client_id,
            expires_at=decision.expires_at,
        )

    def find(self, reference: str) -> Decision | None:
        """Return the record of a reference."""
        row = self.db.row(
            "SELECT reference, at, endpoint, code, checked, description, expected, received,"
            " client_id, expires_at FROM decisions WHERE reference = :reference",
            reference=reference,
        )
        return None if row is None else Decision(*row)


@dataclass(frozen=True, slots=True)
class DecisionQueue:
    """Decisions waiting to be written: an error response does not wait for the disk.

    At most 10,000 wait; under a flood of refusals the oldest records are dropped, and responses are
    unaffected.
    """

    random: Callable[[int], bytes]
    waiting: deque[Decision] = field(default_factory=lambda: deque[Decision](maxlen=_QUEUED))

    def put(self, refusal: Refusal, *, endpoint: str, at: Instant) -> str:
        """Queue the record and return its reference, such as VK-7F3K-9QXM-2RTD."""
        metrics.REFUSALS.add(refusal.check)
        reference = fresh_reference(self.random)
        self.waiting.append(
            Decision(
                reference=reference,
                at=at,
                endpoint=endpoint,
                code=refusal.code.value,
                check=refusal.check,
                description=refusal.description,
                expected=refusal.expected,
                received=refusal.received,
                client_id=None,
                expires_at=later(at, REMEMBERED),
            )
        )
        return reference

    def take(self) -> tuple[Decision, ...]:
        """Remove and return up to 500 records, the oldest first."""
        count = min(len(self.waiting), _BATCH)
        return tuple(self.waiting.popleft() for _ in range(count))
