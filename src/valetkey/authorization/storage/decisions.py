"""Decision records of clients: read by their developers, bounded per client."""

from collections.abc import Sequence

from msgspec import field

from valetkey.database import decisions
from valetkey.database.decisions import DECISIONS, Decision
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.refusal import Refusal
from valetkey.web.rate_limit import Buckets

_CLAIMED = (60, hours(2))
_PROVEN = (500, hours(1))
"""Capacity and refill time of a client's bucket of records; `_CLAIMED` is for unproven requests.

Separate, because anyone can cause refusals by naming a client: they must not crowd out the refusals
of the client's own requests.
"""


class ClientDecisions(decisions.Decisions, frozen=True):
    """Decision records, found by reference or by client."""

    def of_client(
        self, client_id: str, before: Instant, before_reference: str, limit: int, code: str = ""
    ) -> Sequence[Decision]:
        """Return at most `limit` records of one client, newest first, before a position.

        With a `code` only those of that error.
        """
        return DECISIONS.all(
            self.db,
            "SELECT * FROM decisions WHERE client_id = :client_id AND (at < :before"
            " OR (at = :before AND reference < :before_reference)) AND (:code = '' OR code = :code)"
            " ORDER BY at DESC, reference DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_reference=before_reference,
            code=code,
            limit=limit,
        )

    def sweep_beyond(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the records that name a client, beyond the newest `keep`."""
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE client_id IS NOT NULL"
            " ORDER BY at DESC LIMIT :limit OFFSET :keep)",
            keep=keep,
            limit=limit,
        )

    def sweep_without_client(self, keep: int, limit: int) -> int:
        """Delete at most `limit` of the records that name no client, beyond the newest `keep`.

        Any caller can cause such refusals: they are bounded separately, so that they do not
        displace the records that an app's developer may want to read.
        """
        return self.db.run(
            "DELETE FROM decisions WHERE reference IN"
            " (SELECT reference FROM decisions WHERE client_id IS NULL"
            " ORDER BY at DESC LIMIT :limit OFFSET :keep)",
            keep=keep,
            limit=limit,
        )


class ClientDecisionQueue(decisions.DecisionQueue, frozen=True):
    """Decisions waiting to be written, of which each client gets as many as developers can read.

    Records beyond that name no client: only the operator finds them, by their reference.
    """

    claimed: Buckets = field(default_factory=lambda: Buckets(*_CLAIMED))
    proven: Buckets = field(default_factory=lambda: Buckets(*_PROVEN))

    def enqueue(
        self,
        refusal: Refusal,
        *,
        endpoint: str,
        at: Instant,
        client_id: str | None = None,
        proven: bool = False,
    ) -> str:
        """Queue the record and return its reference, such as VK-7F3K-9QXM-2RTD.

        `client_id`, or else the refusal's `about`, is the client of the record; `proven` says that
        this client was authenticated as the sender of the request.
        """
        whose = client_id or refusal.about
        # Records without a client are counted too: timing must not reveal whether a client exists.
        full = (self.proven if proven else self.claimed).take(whose, at)
        whose_record = None if full else whose or None
        # Named: a dataclass with slots is another class than the one that `super()` knows.
        return decisions.DecisionQueue.enqueue(
            self, refusal, endpoint=endpoint, at=at, client_id=whose_record
        )
