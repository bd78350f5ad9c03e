"""Decision records of both servers: why a request was refused, kept for a week."""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.refusal import FAILED, Refusal
from valetkey.kernel.secret import fresh_reference
from valetkey.kernel.tracing import CALLER

DECISION_LIFETIME = days(7)
"""How long a decision record is kept."""

_QUEUED = 10_000
_LONGEST = 1_000


class Decision(Struct, frozen=True):
    """The record of a refusal: the check, what it expected and received; never a secret."""

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
    request_id: str = ""
    """The id of the refused request in the log; "" for the server's own work."""


DECISIONS = Record(Decision, "decisions", check=Column("checked"))


class Decisions(Struct, frozen=True):
    """Decision records, found by the reference in the error response."""

    db: Connection

    def add(self, decision: Decision) -> None:
        """Insert the record; it is kept until it expires."""
        DECISIONS.send(
            self.db,
            "INSERT INTO decisions (*) VALUES (*) ON CONFLICT (reference) DO NOTHING",
            decision,
        )

    def find(self, reference: str) -> Decision | None:
        """Return the record of a reference."""
        return DECISIONS.find(
            self.db,
            "SELECT * FROM decisions WHERE reference = :reference",
            reference=reference,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` records that expired."""
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


class DecisionQueue(Struct, frozen=True):
    """Decisions waiting to be written: an error response does not wait for the disk.

    At most 10,000 wait; under a flood of refusals the oldest records are dropped, and responses are
    unaffected.
    """

    random: Callable[[int], bytes]
    waiting: deque[Decision] = field(default_factory=lambda: deque[Decision](maxlen=_QUEUED))

    def enqueue(
        self, refusal: Refusal, *, endpoint: str, at: Instant, client_id: str | None = None
    ) -> str:
        """Queue the record and return its reference, such as VK-7F3K-9QXM-2RTD."""
        metrics.REFUSALS.add(_kept(refusal.check))
        failed = refusal.check == FAILED
        reference = refusal.received if failed else fresh_reference(self.random)
        caller = CALLER.get()
        if caller is not None:
            caller.reference = reference
        self.waiting.append(
            Decision(
                reference=reference,
                at=at,
                endpoint=_kept(endpoint),
                code=refusal.code.value,
                check=_kept(refusal.check),
                description=_kept(refusal.description),
                expected=_kept(refusal.expected),
                received=_kept(refusal.received),
                client_id=client_id,
                expires_at=later(at, DECISION_LIFETIME),
                request_id="" if caller is None else caller.request_id,
            )
        )
        return reference

    def drain(self, most: int = _QUEUED) -> Sequence[Decision]:
        """Remove and return at most `most` queued records, oldest first."""
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def give_back(self, decisions: Sequence[Decision]) -> None:
        """Queue records again, the newest first as far as there is room."""
        room = _QUEUED - len(self.waiting)
        self.waiting.extendleft(tuple(reversed(decisions))[:room])


def _kept(text: str) -> str:
    # Short, and without characters that a database refuses: one such record would block all others.
    return text[:_LONGEST].encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
