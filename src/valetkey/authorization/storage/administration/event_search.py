"""Search the events with filters, newest first."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import LARGEST_UID
from valetkey.authorization.storage.administration.client_search import TimeCursor
from valetkey.authorization.storage.records import SHOWN_EVENTS, EventRecord
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_LATEST = Instant(1 << 53)


class EventFilter(Struct, frozen=True):
    """A filter of events; None and "" for all. `since` is the first second, `until` the last."""

    uid: int | None = None
    client_id: str = ""
    name: str = ""
    done_by: str = ""
    since: Instant = Instant(0)
    until: Instant = _LATEST


def _by_those_they_name(wanted: EventFilter) -> EventFilter | None:
    """Return the filter for an actor's events about itself, which are stored under its own id."""
    kind, _, id_ = wanted.done_by.partition(" ")
    if kind == "client" and id_:
        return replace(wanted, client_id=id_)
    if kind == "user" and id_.isascii() and id_.isdigit() and int(id_) <= LARGEST_UID:
        return replace(wanted, uid=int(id_))
    return None


class EventSearch(Struct, frozen=True):
    """Search the events through the narrowest index for the filter."""

    db: Connection

    def page(self, wanted: EventFilter, before: TimeCursor, limit: int) -> Sequence[EventRecord]:
        """Return at most `limit` events, newest first, before a position."""
        said: dict[str, object] = {
            "uid": wanted.uid if wanted.uid is not None else -1,
            "client_id": wanted.client_id,
            "name": wanted.name,
            "done_by": wanted.done_by,
            "since": wanted.since,
            "until": wanted.until,
            "at": before.at,
            "id": before.id,
            "limit": limit,
        }
        if wanted.uid is not None:
            rows = self._of_person(said)
        elif wanted.client_id:
            rows = self._of_client(said)
        elif wanted.done_by:
            rows = self._done_by(said)
            own = _by_those_they_name(wanted)
            if own is not None:
                found = [*self.page(own, before, limit), *rows]
                every = {each.id: each for each in found}.values()
                return sorted(every, key=lambda each: (each.at, each.id), reverse=True)[:limit]
        elif wanted.name:
            rows = self._of_name(said)
        else:
            rows = self._all(said)
        return rows

    def _of_person(self, said: dict[str, object]) -> Sequence[EventRecord]:
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE uid = :uid AND uid IS NOT NULL AND at >= :since"
            " AND at <= :until AND (at < :at OR (at = :at AND id < :id)) AND (:client_id = ''"
            " OR client_id = :client_id) AND (:name = '' OR name = :name) AND (:done_by = ''"
            " OR done_by = :done_by  OR (done_by = 'user' AND :done_by = 'user ' || uid) "
            " OR (done_by = 'client' AND :done_by = 'client ' || client_id))"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **said,
        )

    def _of_client(self, said: dict[str, object]) -> Sequence[EventRecord]:
        said.pop("uid")
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE client_id = :client_id AND client_id IS NOT NULL"
            " AND at >= :since AND at <= :until AND (at < :at OR (at = :at AND id < :id))"
            " AND (:name = '' OR name = :name) AND (:done_by = '' OR done_by = :done_by "
            " OR (done_by = 'user' AND :done_by = 'user ' || uid)  OR (done_by = 'client'"
            " AND :done_by = 'client ' || client_id)) ORDER BY at DESC, id DESC LIMIT :limit",
            **said,
        )

    def _done_by(self, said: dict[str, object]) -> Sequence[EventRecord]:
        for name in ("uid", "client_id"):
            said.pop(name)
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE done_by = :done_by AND done_by NOT IN ('', 'user',"
            " 'client') AND at >= :since AND at <= :until AND (at < :at OR (at = :at AND id < :id))"
            " AND (:name = '' OR name = :name) ORDER BY at DESC, id DESC LIMIT :limit",
            **said,
        )

    def _of_name(self, said: dict[str, object]) -> Sequence[EventRecord]:
        for name in ("uid", "client_id", "done_by"):
            said.pop(name)
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE name = :name AND at >= :since AND at <= :until AND (at <"
            " :at OR (at = :at AND id < :id)) ORDER BY at DESC, id DESC LIMIT :limit",
            **said,
        )

    def _all(self, said: dict[str, object]) -> Sequence[EventRecord]:
        for name in ("uid", "client_id", "done_by", "name"):
            said.pop(name)
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE at >= :since AND at <= :until AND (at < :at OR (at = :at"
            " AND id < :id)) ORDER BY at DESC, id DESC LIMIT :limit",
            **said,
        )
