"""Requests of an app: those that were refused, and samples of those that were successful."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.storage.register.request_samples import StoredSample
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant


class Cursor(Struct, frozen=True):
    """The position in the list of requests after which a page begins, newest first."""

    at: Instant
    reference: str

    @staticmethod
    def of(found: Decision | StoredSample) -> "Cursor":
        """Return the position of a request."""
        reference = found.reference if isinstance(found, Decision) else found.id
        return Cursor(found.at, reference)


NEWEST = Cursor(Instant(1 << 53), "")
"""Before all others."""


class AppRequests(Struct, frozen=True):
    """Which requests are listed; with a `code`, of the refused ones those with that error."""

    refused: bool = True
    successful: bool = True
    code: str = ""


def requests_of(
    tx: Transaction, client_id: str, after: Cursor, limit: int, wanted: AppRequests
) -> Sequence[Decision | StoredSample]:
    """Return at most `limit` requests of one app, newest first."""
    place = client_id, after.at, after.reference, limit
    refused = tx.decisions.of_client(*place, wanted.code) if wanted.refused else ()
    sampled = tx.request_samples.of_client(*place) if wanted.successful else ()
    both: list[Decision | StoredSample] = [*refused, *sampled]
    return sorted(both, key=_place, reverse=True)[:limit]


def _place(found: Decision | StoredSample) -> tuple[Instant, str]:
    cursor = Cursor.of(found)
    return cursor.at, cursor.reference
