"""Store of imports and of the rows of their files."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.imports.model import (
    ImportRow,
    ImportState,
    RowState,
    UserImport,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant

_IMPORTS = Record(UserImport, "user_imports")
_ROWS = Record(ImportRow, "user_import_rows")


class UserImports(Struct, frozen=True):
    """A row for each import and for each user in its file."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "UserImports":
        """Return the store in this transaction."""
        return UserImports(tx.db)

    def exclude(self) -> None:
        """Prevent another import from beginning until the commit. Call it before any other lock."""
        self.db.exclude(Lock.USER_IMPORTS)

    def begin(self, upload: UserImport, most: int) -> bool:
        """Create an import, after `exclude`. False if `most` others are not over."""
        row = self.db.row(
            "SELECT count(*) FROM user_imports WHERE state NOT IN ('finished', 'stopped')"
        )
        if row is not None and int(row[0]) >= most:
            return False
        return _IMPORTS.run(self.db, "INSERT INTO user_imports (*) VALUES (*)", upload) == 1

    def find(self, import_id: str) -> UserImport | None:
        """Return an import with this id, also one that has ended; None if there is none."""
        return _IMPORTS.find(self.db, "SELECT * FROM user_imports WHERE id = :id", id=import_id)

    def recent(self, limit: int) -> Sequence[UserImport]:
        """Return at most `limit` imports, newest first."""
        return _IMPORTS.all(
            self.db,
            "SELECT * FROM user_imports ORDER BY created_at DESC, id LIMIT :limit",
            limit=limit,
        )

    def add(self, import_id: str, rows: Sequence[ImportRow]) -> bool:
        """Add rows to an import that is being received. False if it is not any more."""
        added = self.db.run(
            "UPDATE user_imports SET total = total + :count WHERE id = :id AND state = 'receiving'",
            id=import_id,
            count=len(rows),
        )
        if added != 1:
            return False
        for row in rows:
            _ROWS.run(
                self.db,
                "INSERT INTO user_import_rows (*, import_id) VALUES (*, :import_id)",
                row,
                import_id=import_id,
            )
        return True

    def move(self, import_id: str, before: ImportState, after: ImportState, now: Instant) -> bool:
        """Begin the next stage. Exactly one concurrent caller gets True."""
        moved = self.db.run(
            "UPDATE user_imports SET state = :after, position = 0, due_at = :now,"
            " finished_at = :finished_at"
            " WHERE id = :id AND state = :before",
            id=import_id,
            before=before.value,
            after=after.value,
            finished_at=now if after.is_over else None,
            now=now,
        )
        return moved == 1

    def due(self, now: Instant) -> UserImport | None:
        """Return an import on which no worker works; the oldest."""
        return _IMPORTS.find(
            self.db,
            "SELECT * FROM user_imports WHERE (state IN ('checking', 'importing')"
            " OR (state = 'stopped' AND position < total)) AND due_at <= :now"
            " ORDER BY created_at, id LIMIT 1",
            now=now,
        )

    def advance(self, user_import: UserImport, count: int, until: Instant) -> bool:
        """Take the next `count` rows of this stage, and the import until `until`.

        False if another transaction took them or the stage has ended: exactly one gets each row.
        """
        advanced = self.db.run(
            "UPDATE user_imports SET position = position + :count, due_at = :until"
            " WHERE id = :id AND state = :state AND position = :position",
            id=user_import.id,
            state=user_import.state.value,
            position=user_import.position,
            count=count,
            until=until,
        )
        return advanced == 1

    def rows(self, import_id: str, after: int, limit: int) -> Sequence[ImportRow]:
        """Return at most `limit` rows after this position, in the order of the file."""
        return _ROWS.all(
            self.db,
            "SELECT * FROM user_import_rows WHERE import_id = :id AND position > :after"
            " ORDER BY position LIMIT :limit",
            id=import_id,
            after=after,
            limit=limit,
        )

    def problems(self, import_id: str, after: int, limit: int) -> Sequence[ImportRow]:
        """Return at most `limit` rows for which there is a reason, after this position."""
        return _ROWS.all(
            self.db,
            "SELECT * FROM user_import_rows WHERE import_id = :id AND position > :after"
            " AND reason <> '' ORDER BY position LIMIT :limit",
            id=import_id,
            after=after,
            limit=limit,
        )

    def decide(self, import_id: str, position: int, state: RowState, reason: str) -> None:
        """Store the outcome for a row. What it said is deleted, unless it will be imported."""
        self.db.run(
            "UPDATE user_import_rows SET state = :state, reason = :reason,"
            " data = CASE WHEN :keeps = 1 THEN data ELSE '' END"
            " WHERE import_id = :id AND position = :position",
            id=import_id,
            position=position,
            state=state.value,
            reason=reason,
            keeps=int(state in {RowState.WAITING, RowState.GOOD}),
        )

    def counts(self, import_id: str) -> Mapping[RowState, int]:
        """Return how many rows have each outcome."""
        rows = self.db.rows(
            "SELECT state, count(*) FROM user_import_rows WHERE import_id = :id GROUP BY state",
            id=import_id,
        )
        return {RowState(str(state)): int(number) for state, number in rows}

    def sweep(
        self, received: Instant, waiting: Instant, over: Instant, kept: int, limit: int
    ) -> int:
        """Delete at most `limit` rows of finished imports, then those imports.

        Old are uploads that began before `received` and are incomplete, checked files from before
        `waiting`, and imports that ended before `over` or are not among the `kept` newest.
        """
        row = self.db.row(
            "SELECT id FROM user_imports WHERE finished_at < :over"
            " OR (created_at < :waiting AND state = 'checked')"
            " OR (created_at < :received AND state = 'receiving')"
            " OR (finished_at IS NOT NULL AND id NOT IN (SELECT id FROM user_imports"
            " ORDER BY created_at DESC, id LIMIT :kept)) LIMIT 1",
            over=over,
            kept=kept,
            received=received,
            waiting=waiting,
        )
        if row is None:
            return 0
        swept = self.db.run(
            "DELETE FROM user_import_rows WHERE import_id = :id AND position IN"
            " (SELECT position FROM user_import_rows WHERE import_id = :id"
            " ORDER BY position LIMIT :limit)",
            id=row[0],
            limit=limit,
        )
        if swept < limit:
            swept += self.db.run("DELETE FROM user_imports WHERE id = :id", id=row[0])
        return swept
