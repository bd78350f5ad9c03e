"""Filters of lists that administrators saved under a name."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant

MOST = 20
"""Filters that one user can save for one list."""


class SavedFilter(Struct, frozen=True):
    """A name, and the query of the list's page."""

    name: str
    query: str


class SavedFilters(Struct, frozen=True):
    """Store the saved filters of users, one row each."""

    db: Connection

    def of(self, uid: Uid, list_name: str) -> Sequence[SavedFilter]:
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
        others = [each for each in self.of(uid, list_name) if each.name != saved.name]
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
