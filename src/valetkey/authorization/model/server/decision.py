"""Decision records: why a request was refused, kept for a week under a reference."""

from dataclasses import dataclass

from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Decision:
    """Which check refused, what it expected and what it received; never a secret."""

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
