"""Search the declared APIs by a part of the name or identifier, and list them in an order."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.storage.search import MOST_LOOKED_AT, ListOrder
from valetkey.database.engine import Connection, Row


class _Place(Struct, frozen=True):
    """The place of an API in the orders."""

    name: str
    at: int


class ApiSearch(Struct, frozen=True):
    """Search APIs. `part` is a part of the name or identifier, in upper or lower case."""

    db: Connection

    def page(
        self, after: str, limit: int, part: str = "", order: ListOrder | None = None
    ) -> Sequence[str]:
        """Return the ids of at most `limit` APIs, from the beginning for `after` "".

        Without an order they are sorted by their canonical identifiers, and follow the one in
        `after`. In an order they follow the API of the id in `after`; if that was deleted, the list
        begins again.
        """
        read = {
            None: self._by_identifier,
            ListOrder.NAME: self._by_name,
            ListOrder.NAME_DESCENDING: self._by_name_descending,
            ListOrder.NEWEST: self._newest,
            ListOrder.OLDEST: self._oldest,
        }[order]
        return [str(api_id) for (api_id,) in read(after, limit, part)]

    def matching(self, part: str, limit: int) -> Sequence[tuple[str, str, str]]:
        """Return id, name and identifier of at most `limit` of the first 2,000 APIs, by name."""
        rows = self.db.rows(
            "SELECT id, name, identifier FROM apis WHERE id IN"
            " (SELECT id FROM apis ORDER BY key LIMIT :examined)"
            " AND (replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier))"
            " ORDER BY lower(name), id LIMIT :limit",
            part=part,
            examined=MOST_LOOKED_AT,
            limit=limit,
        )
        return [(api_id, name, identifier) for api_id, name, identifier in rows]

    def count(self, part: str, most: int) -> int:
        """Count the APIs, up to `most`."""
        row = self.db.row(
            "SELECT count(*) FROM (SELECT id FROM apis WHERE :part = ''"
            " OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier)"
            " LIMIT :limit) AS counted",
            part=part,
            limit=most,
        )
        return 0 if row is None else int(row[0])

    def _by_identifier(self, after: str, limit: int, part: str) -> Sequence[Row]:
        return self.db.rows(
            "SELECT id FROM apis WHERE key > :after"
            " AND (:part = '' OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier))"
            " ORDER BY key LIMIT :limit",
            after=after,
            part=part,
            limit=limit,
        )

    def _by_name(self, after: str, limit: int, part: str) -> Sequence[Row]:
        position = self._place(after)
        return self.db.rows(
            "SELECT id FROM apis WHERE (:id = ''"
            " OR (lower(name) >= :name AND (lower(name) > :name OR id > :id)))"
            " AND (:part = '' OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier))"
            " ORDER BY lower(name), id LIMIT :limit",
            id="" if position is None else after,
            name="" if position is None else position.name,
            part=part,
            limit=limit,
        )

    def _by_name_descending(self, before: str, limit: int, part: str) -> Sequence[Row]:
        position = self._place(before)
        return self.db.rows(
            "SELECT id FROM apis WHERE (:id = ''"
            " OR (lower(name) <= :name AND (lower(name) < :name OR id < :id)))"
            " AND (:part = '' OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier))"
            " ORDER BY lower(name) DESC, id DESC LIMIT :limit",
            id="" if position is None else before,
            name="" if position is None else position.name,
            part=part,
            limit=limit,
        )

    def _newest(self, before: str, limit: int, part: str) -> Sequence[Row]:
        position = self._place(before)
        return self.db.rows(
            "SELECT id FROM apis WHERE (:id = ''"
            " OR created_at < :at OR (created_at = :at AND id < :id))"
            " AND (:part = '' OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier))"
            " ORDER BY created_at DESC, id DESC LIMIT :limit",
            id="" if position is None else before,
            at=0 if position is None else position.at,
            part=part,
            limit=limit,
        )

    def _oldest(self, after: str, limit: int, part: str) -> Sequence[Row]:
        position = self._place(after)
        return self.db.rows(
            "SELECT id FROM apis WHERE (:id = ''"
            " OR created_at > :at OR (created_at = :at AND id > :id))"
            " AND (:part = '' OR replace(lower(name), lower(:part), '') <> lower(name)"
            " OR replace(lower(identifier), lower(:part), '') <> lower(identifier))"
            " ORDER BY created_at, id LIMIT :limit",
            id="" if position is None else after,
            at=0 if position is None else position.at,
            part=part,
            limit=limit,
        )

    def _place(self, api_id: str) -> _Place | None:
        # Folded by the database, as in the order: Python folds other letters.
        row = self.db.row("SELECT lower(name), created_at FROM apis WHERE id = :id", id=api_id)
        return None if row is None else _Place(str(row[0]), int(row[1]))
