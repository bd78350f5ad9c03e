"""The log as administrators read it, and take copies of it away."""

from collections.abc import Sequence

from valetkey.authorization.deeds.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.event.administration import EventsExported
from valetkey.authorization.storage.administration.client_search import Place
from valetkey.authorization.storage.administration.event_search import EventFilter
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


def page(
    tx: Transaction, actor: Actor, wanted: EventFilter, before: Place, limit: int
) -> Sequence[EventRecord]:
    """At most `limit`, newest first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.event_search.page(wanted, before, limit)


def begin_export(tx: Transaction, actor: Actor, format: str, now: Instant) -> None:
    """Write down that a copy is taken away. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    tx.events.add(EventsExported(format), now)
