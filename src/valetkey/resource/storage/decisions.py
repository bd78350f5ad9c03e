"""Why something was refused: written behind the answer, kept for a week."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from valetkey.database.engine import Connection
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import fresh_reference

REMEMBERED = days(7)
"""How long the reasons of a refusal can be read."""

_QUEUED = 10_000
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Decision:
    """Which check refused, what it expected and what it received; secrets never."""

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
    """Decision records, found by the reference that the refusal carried."""

    db: Connection

    def add(self, decision: Decision) -> None:
        """Keep it until it expires."""
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
        """The record behind a reference."""
        row = self.db.row(
            "SELECT reference, at, endpoint, code, checked, description, expected, received,"
            " client_id, expires_at FROM decisions WHERE reference = :reference",
            reference=reference,
        )
        return None if row is None else Decision(*row)


@dataclass(frozen=True, slots=True)
class DecisionQueue:
    """Decisions on their way to the database: a refusal does not wait for a disk.

    At most 10,000 wait; under a flood of refusals the oldest records are lost, not the answers.
    """

    random: Callable[[int], bytes]
    waiting: deque[Decision] = field(default_factory=lambda: deque[Decision](maxlen=_QUEUED))

    def put(self, refusal: Refusal, *, endpoint: str, at: Instant) -> str:
        """The reference that the refusal is to carry, such as VK-7F3K-9QXM-2RTD."""
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
        """Up to 500 that waited longest; they are the caller's now."""
        count = min(len(self.waiting), _BATCH)
        return tuple(self.waiting.popleft() for _ in range(count))
