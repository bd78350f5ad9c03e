"""Search the clients with filters."""

import json
from collections.abc import Iterator, Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import fold
from valetkey.authorization.model.register.client import DISCOURAGED, ClientType, ProfileName
from valetkey.authorization.storage.administration.list_order import ListOrder
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant

MOST_LOOKED_AT = 2_000
"""Maximum number of clients examined in one search; the next call continues from there."""

_BATCH = 200


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
    def place(self) -> TimeCursor:
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
        wanted = (
            (self.type, line.type.value),
            (self.profile, line.profile.value),
            (self.disabled, line.disabled_at is not None),
            (self.verified, line.verified_at is not None),
            (self.self_registered, line.self_registered),
            (self.legacy, line.is_legacy),
        )
        if not line.listed or any(asked is not None and asked != is_ for asked, is_ in wanted):
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
        wanted: ClientFilter,
        place: TimeCursor,
        limit: int,
        order: ListOrder = ListOrder.NEWEST,
    ) -> ClientSearchResult:
        """Return at most `limit` clients; fewer, with a position, after too many were examined."""
        found: list[ClientLine] = []
        last = place
        for looked_at, line in enumerate(self._lines(place, order)):
            if looked_at == MOST_LOOKED_AT:
                return ClientSearchResult(found, last)
            if wanted.takes(line):
                if len(found) == limit:
                    return ClientSearchResult(found, last)
                found.append(line)
            last = line.place
        return ClientSearchResult(found, None)

    def count(self, wanted: ClientFilter, most: int) -> int | None:
        """Count the matching clients, up to `most`; None if too many would be examined."""
        if wanted != ClientFilter():
            found = 0
            for looked_at, line in enumerate(self._lines(END, ListOrder.NEWEST)):
                found += wanted.takes(line)
                if found == most:
                    break
                if looked_at == MOST_LOOKED_AT:
                    return None
            return found
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

    def _lines(self, place: TimeCursor, order: ListOrder) -> Iterator[ClientLine]:
        # Every other order begins after nothing.
        start = place if place != END or order is ListOrder.NEWEST else BEGINNING
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
            start = lines[-1].place

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

    def _name_of(self, place: TimeCursor) -> str | None:
        # The database folds the name, because its index does: Python folds other letters.
        row = self.db.row("SELECT lower(name) FROM clients WHERE id = :id", id=place.id)
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
