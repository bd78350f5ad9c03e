"""A history of what clients asked and were told, and the model of "revoked means revoked".

As Jepsen does: each operation has the time at which it was invoked and the time of its answer, on
one clock. What a server did lies somewhere between. An operation without an answer may have
happened at any time from its invocation on, or never.
"""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

PROMISE = 5.0
"""Seconds after the answer to a revocation from which on no token of its grant is accepted."""


class Kind(Enum):
    """What a client asked for."""

    ISSUE = "issue"
    """A code was exchanged for a token."""
    READ = "read"
    """Introspection, or a request of the API: is the token accepted?"""
    REVOKE = "revoke"


class Operation(NamedTuple):
    """One request. The outcome is None if no answer arrived, or one that says nothing."""

    kind: Kind
    subject: str
    """The token; for ISSUE its code, so that a code that works twice is seen."""
    began: float
    ended: float
    outcome: bool | None
    token: str = ""
    """The token of an ISSUE that was answered."""
    place: str = ""
    """Which server was asked; for the sentence about a violation."""


class History:
    """Operations of any number of threads, in no particular order."""

    def __init__(self) -> None:
        """Begin without any."""
        self.operations: list[Operation] = []
        self._turn = threading.Lock()

    def add(
        self,
        kind: Kind,
        subject: str,
        began: float,
        outcome: bool | None,
        token: str = "",
        place: str = "",
    ) -> None:
        """Note an operation that ends now."""
        operation = Operation(kind, subject, began, time.monotonic(), outcome, token, place)
        with self._turn:
            self.operations.append(operation)


@dataclass
class Findings:
    """What the checker found; each list has one sentence for each violation."""

    checked: int = 0
    stale: list[str] = field(default_factory=list[str])
    """Accepted more than `PROMISE` after its revocation was acknowledged."""
    resurrected: list[str] = field(default_factory=list[str])
    """Accepted more than `PROMISE` after it was refused."""
    lost: list[str] = field(default_factory=list[str])
    """Refused although nobody had asked to revoke it."""
    twice: list[str] = field(default_factory=list[str])
    """A code that was exchanged twice."""
    longest: float = -math.inf
    """Seconds from the answer to a revocation to the begin of the last accepted request."""

    @property
    def is_good(self) -> bool:
        """Whether something was checked, and no promise was broken."""
        return self.checked > 0 and not (self.stale or self.resurrected or self.lost or self.twice)

    def add(self, other: "Findings") -> None:
        """Add what was found in another history."""
        self.checked += other.checked
        self.stale += other.stale
        self.resurrected += other.resurrected
        self.lost += other.lost
        self.twice += other.twice
        self.longest = max(self.longest, other.longest)

    def __str__(self) -> str:
        """Return the counts for a row of the table."""
        longest = f", the last one {self.longest:.2f} s after" if self.longest > 0 else ""
        return (
            f"{self.checked} operations checked: {len(self.stale)} accepted after a revocation"
            f"{longest}, {len(self.resurrected)} accepted again, {len(self.lost)} lost, "
            f"{len(self.twice)} codes twice"
        )


def check(operations: Sequence[Operation], *, promise: float = PROMISE) -> Findings:
    """Compare a history with the model; takes n log n steps for n operations.

    The model of a token: it is accepted from its issue until somebody asks to revoke it, may be
    either from then until `promise` seconds after that was acknowledged, and is refused from then
    on. Once refused for longer than `promise` it is refused for ever, acknowledged or not.
    """
    findings = Findings(checked=len(operations))
    tokens: dict[str, list[Operation]] = defaultdict(list)
    codes: dict[str, int] = defaultdict(int)
    for operation in operations:
        if operation.kind is Kind.ISSUE:
            if operation.outcome:
                codes[operation.subject] += 1
                tokens[operation.token].append(operation)
        else:
            tokens[operation.subject].append(operation)
    findings.twice += [
        f"code {code[:12]}: {count} times" for code, count in codes.items() if count > 1
    ]
    for token, its in tokens.items():
        _check_token(token, sorted(its, key=lambda operation: operation.began), promise, findings)
    return findings


def _check_token(token: str, its: Sequence[Operation], promise: float, findings: Findings) -> None:
    revocations = [operation for operation in its if operation.kind is Kind.REVOKE]
    requested = min((operation.began for operation in revocations), default=math.inf)
    revoked = min(
        (operation.ended for operation in revocations if operation.outcome), default=math.inf
    )
    issued = min(
        (operation.ended for operation in its if operation.kind is Kind.ISSUE), default=math.inf
    )
    reads = [
        operation
        for operation in its
        if operation.kind is Kind.READ and operation.outcome is not None
    ]
    refused = math.inf
    # By their begin, so that all reads that ended before one began can be known: the earliest
    # end of a refusal is compared with the begins that follow.
    for read in reads:
        if read.outcome:
            findings.longest = max(findings.longest, read.began - revoked)
            if read.began > revoked + promise:
                findings.stale.append(_told(token, read, revoked, "revocation"))
            elif read.began > refused + promise:
                findings.resurrected.append(_told(token, read, refused, "refusal"))
        else:
            if read.ended < requested and read.began > issued:
                findings.lost.append(_told(token, read, issued, "issue"))
            refused = min(refused, read.ended)


def _told(token: str, read: Operation, since: float, what: str) -> str:
    verb = "accepted" if read.outcome else "refused"
    return f"{token[:12]}: {verb} by {read.place} {read.began - since:.2f} s after its {what}"
