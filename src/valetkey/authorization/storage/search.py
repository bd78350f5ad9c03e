"""Search clients and events with filters; the orders of lists, and saved filters."""

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.model.client import DISCOURAGED, ClientType, ProfileName
from valetkey.authorization.model.user import LARGEST_UID, Uid, fold
from valetkey.authorization.storage.records import SHOWN_EVENTS, EventRecord
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


class ListOrder(StrEnum):
    """An order of clients, groups or APIs; names are compared without regard to case."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NAME = "name"
    NAME_DESCENDING = "-name"


def order_in(text: str | None, usual: ListOrder) -> ListOrder:
    """Return the order of this name; the usual one for any other text."""
    return ListOrder(text) if text in set(ListOrder) else usual


MOST_LOOKED_AT = 2_000
"""Maximum number of clients examined in one search; the next call continues from there."""

_BATCH = 200
_AFTER_LETTERS = "\U0010fffd"


class TimeCursor(Struct, frozen=True):
    """A position in a list: before that time, or at it and before that id."""

    at: Instant
    id: str


END = TimeCursor(Instant(1 << 53), "")
"""The position before which every client lies."""

BEGINNING = TimeCursor(Instant(-1), "")
"""The position after which every client lies."""


class ClientLine(Struct, frozen=True):
    """The fields of a client shown in a list."""

    id: str
    name: str
    type: ClientType
    profile: ProfileName
    grant_types: tuple[str, ...]
    created_at: Instant
    disabled_at: Instant | None
    verified_at: Instant | None
    self_registered: bool
    listed: bool = True
    """Whether lists and totals have it as an app.

    Not the credential of an API or of the resource server, and nothing that is being removed.
    """

    @property
    def position(self) -> TimeCursor:
        """Return the position after this client."""
        return TimeCursor(self.created_at, self.id)

    @property
    def is_legacy(self) -> bool:
        """Return whether it may use a legacy grant: implicit or password."""
        return any(name in DISCOURAGED for name in self.grant_types)


class ClientFilter(Struct, frozen=True):
    """A filter of clients; None and "" for all. `text` is part of the name or prefix of the id."""

    text: str = ""
    type: str | None = None
    profile: str | None = None
    disabled: bool | None = None
    verified: bool | None = None
    self_registered: bool | None = None
    legacy: bool | None = None

    def takes(self, line: ClientLine) -> bool:
        """Return whether lists have this client and it matches."""
        pairs = (
            (self.type, line.type.value),
            (self.profile, line.profile.value),
            (self.disabled, line.disabled_at is not None),
            (self.verified, line.verified_at is not None),
            (self.self_registered, line.self_registered),
            (self.legacy, line.is_legacy),
        )
        if not line.listed or any(value is not None and value != is_ for value, is_ in pairs):
            return False
        return not self.text or line.id.startswith(self.text) or fold(self.text) in fold(line.name)


class ClientSearchResult(Struct, frozen=True):
    """The clients found, and the position to continue from, if there may be more."""

    lines: Sequence[ClientLine]
    after: TimeCursor | None


class ClientSearch(Struct, frozen=True):
    """Search the register of clients."""

    db: Connection

    def page(
        self,
        criteria: ClientFilter,
        cursor: TimeCursor,
        limit: int,
        order: ListOrder = ListOrder.NEWEST,
    ) -> ClientSearchResult:
        """Return at most `limit` clients; fewer, with a position, after too many were examined."""
        lines: list[ClientLine] = []
        last = cursor
        for looked_at, line in enumerate(self._lines(cursor, order)):
            if looked_at == MOST_LOOKED_AT:
                return ClientSearchResult(lines, last)
            if criteria.takes(line):
                if len(lines) == limit:
                    return ClientSearchResult(lines, last)
                lines.append(line)
            last = line.position
        return ClientSearchResult(lines, None)

    def named(self, text: str, limit: int) -> Sequence[ClientLine]:
        """Return the client of this id, and at most `limit` whose names begin with the text.

        A name is compared without regard to case. Lists may not have all of them as apps.
        """
        of_id = _LINES.all(self.db, "SELECT * FROM clients WHERE id = :text", text=text)
        of_name = _LINES.all(
            self.db,
            "SELECT * FROM clients WHERE lower(name) >= lower(:text) AND lower(name) <= lower(:end)"
            " ORDER BY lower(name), id LIMIT :limit",
            text=text,
            end=f"{text}{_AFTER_LETTERS}",
            limit=limit,
        )
        return [*of_id, *of_name]

    def count(self, criteria: ClientFilter, most: int) -> int | None:
        """Count the matching clients, up to `most`; None if too many would be examined."""
        if criteria != ClientFilter():
            total = 0
            for looked_at, line in enumerate(self._lines(END, ListOrder.NEWEST)):
                total += criteria.takes(line)
                if total == most:
                    break
                if looked_at == MOST_LOOKED_AT:
                    return None
            return total
        # The condition of `listed`: SQL is written out, never put together from parts.
        row = self.db.row(
            "SELECT count(*) FROM (SELECT id FROM clients"
            " WHERE NOT EXISTS (SELECT 1 FROM registrations"
            " WHERE client_id = clients.id AND removed_at IS NOT NULL)"
            " AND NOT EXISTS (SELECT 1 FROM removals WHERE client_id = clients.id)"
            " AND NOT EXISTS (SELECT 1 FROM apis WHERE apis.id = clients.id)"
            " AND id <> 'resource-server'"
            " ORDER BY created_at, id LIMIT :limit) AS counted",
            limit=most,
        )
        return 0 if row is None else int(row[0])

    def requiring_group(self, name: str) -> Sequence[tuple[str, str]]:
        """Return ids and names of the apps that require this group, among the newest 2,000."""
        rows = self.db.rows(
            "SELECT id, name, openid FROM"
            " (SELECT id, name, openid FROM clients ORDER BY created_at DESC, id DESC LIMIT :limit)"
            " AS counted WHERE replace(openid, :quoted, '') <> openid",
            limit=MOST_LOOKED_AT,
            quoted=json.dumps(name),
        )
        return [
            (client_id, shown)
            for client_id, shown, openid in rows
            if name in json.loads(openid).get("required_groups", ())
        ]

    def is_gone(self, client_id: str) -> bool:
        """Return whether it was removed, although its rows still exist for a while."""
        row = self.db.row(
            "SELECT client_id FROM registrations"
            " WHERE client_id = :client_id AND removed_at IS NOT NULL"
            " UNION ALL SELECT client_id FROM removals WHERE client_id = :client_id",
            client_id=client_id,
        )
        return row is not None

    def _lines(self, cursor: TimeCursor, order: ListOrder) -> Iterator[ClientLine]:
        # Every other order begins after nothing.
        start = cursor if cursor != END or order is ListOrder.NEWEST else BEGINNING
        read = {
            ListOrder.NEWEST: self._newest,
            ListOrder.OLDEST: self._oldest,
            ListOrder.NAME: self._by_name,
            ListOrder.NAME_DESCENDING: self._by_name_descending,
        }[order]
        while True:
            lines = read(start)
            yield from lines
            if len(lines) < _BATCH:
                return
            start = lines[-1].position

    def _newest(self, before: TimeCursor) -> Sequence[ClientLine]:
        return _LINES.all(
            self.db,
            "SELECT * FROM clients WHERE (created_at < :at OR (created_at = :at AND id < :id))"
            " ORDER BY created_at DESC, id DESC LIMIT :limit",
            at=before.at,
            id=before.id,
            limit=_BATCH,
        )

    def _oldest(self, after: TimeCursor) -> Sequence[ClientLine]:
        return _LINES.all(
            self.db,
            "SELECT * FROM clients WHERE (created_at > :at OR (created_at = :at AND id > :id))"
            " ORDER BY created_at, id LIMIT :limit",
            at=after.at,
            id=after.id,
            limit=_BATCH,
        )

    def _by_name(self, after: TimeCursor) -> Sequence[ClientLine]:
        return _LINES.all(
            self.db,
            "SELECT * FROM clients WHERE lower(name) >= :name AND (lower(name) > :name OR id > :id)"
            " ORDER BY lower(name), id LIMIT :limit",
            name=self._name_of(after) or "",
            id=after.id,
            limit=_BATCH,
        )

    def _by_name_descending(self, before: TimeCursor) -> Sequence[ClientLine]:
        name = self._name_of(before)
        if name is None:
            return _LINES.all(
                self.db,
                "SELECT * FROM clients ORDER BY lower(name) DESC, id DESC LIMIT :limit",
                limit=_BATCH,
            )
        return _LINES.all(
            self.db,
            "SELECT * FROM clients WHERE lower(name) <= :name AND (lower(name) < :name OR id < :id)"
            " ORDER BY lower(name) DESC, id DESC LIMIT :limit",
            name=name,
            id=before.id,
            limit=_BATCH,
        )

    def _name_of(self, cursor: TimeCursor) -> str | None:
        # The database folds the name, because its index does: Python folds other letters.
        row = self.db.row("SELECT lower(name) FROM clients WHERE id = :id", id=cursor.id)
        return None if row is None else str(row[0])


_LINES = Record(
    ClientLine,
    "clients",
    grant_types=Column(read=lambda text: tuple(json.loads(text))),
    self_registered=Column(sql="EXISTS (SELECT 1 FROM registrations WHERE client_id = clients.id)"),
    listed=Column(
        sql="NOT EXISTS (SELECT 1 FROM registrations"
        " WHERE client_id = clients.id AND removed_at IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM removals WHERE client_id = clients.id)"
        " AND NOT EXISTS (SELECT 1 FROM apis WHERE apis.id = clients.id)"
        " AND clients.id <> 'resource-server'"
    ),
)


_LATEST = Instant(1 << 53)


class EventFilter(Struct, frozen=True):
    """A filter of events; None and "" for all. `since` is the first second, `until` the last.

    `only` are the kinds of events to find, a few, None for all; `without` those to leave out.
    `subject` is an object, `KIND:ID`; a group may be named in place of its id.
    """

    uid: int | None = None
    client_id: str = ""
    name: str = ""
    done_by: str = ""
    since: Instant = Instant(0)
    until: Instant = _LATEST
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    subject: str = ""


def _by_those_they_name(criteria: EventFilter) -> EventFilter | None:
    """Return the filter for an actor's events about itself, which are stored under its own id."""
    kind, _, id_ = criteria.done_by.partition(" ")
    if kind == "client" and id_:
        return replace(criteria, client_id=id_)
    if kind == "user" and id_.isascii() and id_.isdigit() and int(id_) <= LARGEST_UID:
        return replace(criteria, uid=int(id_))
    return None


def _of_credential(criteria: EventFilter) -> EventFilter | None:
    """Return the filter for events of an API's credential, a client with the id of the API."""
    kind, _, id_ = criteria.subject.partition(":")
    if kind == "api" and criteria.client_id in {"", id_}:
        return replace(criteria, subject="", client_id=id_)
    return None


def _newest(events: Sequence[EventRecord], limit: int) -> Sequence[EventRecord]:
    every = {event.id: event for event in events}.values()
    return sorted(every, key=lambda event: (event.at, event.id), reverse=True)[:limit]


class EventSearch(Struct, frozen=True):
    """Search the events through the narrowest index for the filter."""

    db: Connection

    def page(self, criteria: EventFilter, before: TimeCursor, limit: int) -> Sequence[EventRecord]:
        """Return at most `limit` events, newest first, before a position."""
        if criteria.only is not None:
            of_kinds = [
                event
                for name in criteria.only
                if criteria.name in {"", name}
                for event in self.page(replace(criteria, name=name, only=None), before, limit)
            ]
            return _newest(of_kinds, limit)
        values: dict[str, object] = {
            "without": f" {' '.join(criteria.without)} " if criteria.without else "",
            "uid": criteria.uid if criteria.uid is not None else -1,
            "client_id": criteria.client_id,
            "name": criteria.name,
            "done_by": criteria.done_by,
            "since": criteria.since,
            "until": criteria.until,
            "at": before.at,
            "id": before.id,
            "limit": limit,
        }
        own: EventFilter | None = None
        if criteria.subject:
            own = _of_credential(criteria)
            rows = self._of_subject({**values, "subject": self._stored(criteria.subject)})
        elif criteria.uid is not None:
            rows = self._of_person(values)
        elif criteria.client_id:
            rows = self._of_client(values)
        elif criteria.done_by:
            own = _by_those_they_name(criteria)
            rows = self._done_by(values)
        elif criteria.name:
            rows = self._of_name(values)
        else:
            rows = self._all(values)
        return rows if own is None else _newest([*self.page(own, before, limit), *rows], limit)

    def _stored(self, subject: str) -> str:
        """Return how events name the object: a group by its id, of which people know the name."""
        kind, _, name = subject.partition(":")
        if kind != "group":
            return subject
        row = self.db.row(
            "SELECT id FROM user_groups WHERE name = :name AND deleted_at IS NULL", name=name
        )
        return subject if row is None else f"group:{row[0]}"

    def _of_subject(self, values: dict[str, object]) -> Sequence[EventRecord]:
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE subject = :subject AND subject IS NOT NULL AND at >= :since"
            " AND at <= :until AND (at < :at OR (at = :at AND id < :id))"
            " AND (uid = :uid OR :uid = -1) AND (:client_id = '' OR client_id = :client_id)"
            " AND (:name = '' OR name = :name) AND (:done_by = ''"
            " OR done_by = :done_by  OR (done_by = 'user' AND :done_by = 'user ' || uid) "
            " OR (done_by = 'client' AND :done_by = 'client ' || client_id))"
            " AND (:without = '' OR replace(:without, ' ' || name || ' ', '') = :without)"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **values,
        )

    def _of_person(self, values: dict[str, object]) -> Sequence[EventRecord]:
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE uid = :uid AND uid IS NOT NULL AND at >= :since"
            " AND at <= :until AND (at < :at OR (at = :at AND id < :id)) AND (:client_id = ''"
            " OR client_id = :client_id) AND (:name = '' OR name = :name) AND (:done_by = ''"
            " OR done_by = :done_by  OR (done_by = 'user' AND :done_by = 'user ' || uid) "
            " OR (done_by = 'client' AND :done_by = 'client ' || client_id))"
            " AND (:without = '' OR replace(:without, ' ' || name || ' ', '') = :without)"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **values,
        )

    def _of_client(self, values: dict[str, object]) -> Sequence[EventRecord]:
        values.pop("uid")
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE client_id = :client_id AND client_id IS NOT NULL"
            " AND at >= :since AND at <= :until AND (at < :at OR (at = :at AND id < :id))"
            " AND (:name = '' OR name = :name) AND (:done_by = '' OR done_by = :done_by "
            " OR (done_by = 'user' AND :done_by = 'user ' || uid)  OR (done_by = 'client'"
            " AND :done_by = 'client ' || client_id))"
            " AND (:without = '' OR replace(:without, ' ' || name || ' ', '') = :without)"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **values,
        )

    def _done_by(self, values: dict[str, object]) -> Sequence[EventRecord]:
        for name in ("uid", "client_id"):
            values.pop(name)
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE done_by = :done_by AND done_by NOT IN ('', 'user',"
            " 'client') AND at >= :since AND at <= :until AND (at < :at OR (at = :at AND id < :id))"
            " AND (:name = '' OR name = :name)"
            " AND (:without = '' OR replace(:without, ' ' || name || ' ', '') = :without)"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **values,
        )

    def _of_name(self, values: dict[str, object]) -> Sequence[EventRecord]:
        for name in ("uid", "client_id", "done_by"):
            values.pop(name)
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE name = :name AND at >= :since AND at <= :until AND (at <"
            " :at OR (at = :at AND id < :id))"
            " AND (:without = '' OR replace(:without, ' ' || name || ' ', '') = :without)"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **values,
        )

    def _all(self, values: dict[str, object]) -> Sequence[EventRecord]:
        for name in ("uid", "client_id", "done_by", "name"):
            values.pop(name)
        return SHOWN_EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE at >= :since AND at <= :until AND (at < :at OR (at = :at"
            " AND id < :id))"
            " AND (:without = '' OR replace(:without, ' ' || name || ' ', '') = :without)"
            " ORDER BY at DESC, id DESC LIMIT :limit",
            **values,
        )


MOST = 20
"""Filters that one user can save for one list."""


class SavedFilter(Struct, frozen=True):
    """A name, and the query of the list's page."""

    name: str
    query: str


class SavedFilters(Struct, frozen=True):
    """Store the saved filters of users, one row each."""

    db: Connection

    def of_list(self, uid: Uid, list_name: str) -> Sequence[SavedFilter]:
        """Return the filters that a user saved for a list, by name."""
        return _SAVED.all(
            self.db,
            "SELECT * FROM saved_filters WHERE uid = :uid AND list = :list"
            " ORDER BY name LIMIT :limit",
            uid=uid,
            list=list_name,
            limit=MOST,
        )

    def save(self, uid: Uid, list_name: str, saved: SavedFilter, now: Instant) -> bool:
        """Save a filter, in place of the one of this name. False if the user has `MOST` others.

        The caller holds the user, so that two requests cannot exceed the limit.
        """
        others = [other for other in self.of_list(uid, list_name) if other.name != saved.name]
        if len(others) >= MOST:
            return False
        self.db.run(
            "INSERT INTO saved_filters (uid, list, name, query, created_at)"
            " VALUES (:uid, :list, :name, :query, :now)"
            " ON CONFLICT (uid, list, name) DO UPDATE SET query = :query, created_at = :now",
            uid=uid,
            list=list_name,
            name=saved.name,
            query=saved.query,
            now=now,
        )
        return True

    def remove(self, uid: Uid, list_name: str, name: str) -> bool:
        """Delete a filter; False if there is none of this name."""
        removed = self.db.run(
            "DELETE FROM saved_filters WHERE uid = :uid AND list = :list AND name = :name",
            uid=uid,
            list=list_name,
            name=name,
        )
        return removed == 1


_SAVED = Record(SavedFilter, "saved_filters")
