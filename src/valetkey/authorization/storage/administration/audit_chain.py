"""Store of the audit log's hash chain."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.model.event.chain import (
    BLOCK,
    Block,
    ChainedEvent,
    Retention,
    next_block,
)
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Record
from valetkey.kernel.keyring import CheckpointKey
from valetkey.kernel.moment import Instant


class NextBlockInputs(Struct, frozen=True):
    """The inputs of the next block besides the hash of the newest."""

    at: Instant
    keep: str


class AuditChain(Struct, frozen=True):
    """The blocks, and the events that have none yet."""

    db: Connection

    def waiting(self) -> int:
        """Return how many events have no block; counts no further than one block holds."""
        row = self.db.row(
            "SELECT count(*) FROM (SELECT id FROM events WHERE block IS NULL"
            " ORDER BY at, id LIMIT :limit) AS counted",
            limit=BLOCK,
        )
        return 0 if row is None else int(row[0])

    def oldest_waiting(self) -> Instant | None:
        """Return the time of the oldest event without a block."""
        row = self.db.row("SELECT at FROM events WHERE block IS NULL ORDER BY at, id LIMIT 1")
        return None if row is None else Instant(row[0])

    def head(self) -> Block | None:
        """Return the newest block."""
        return _BLOCKS.find(self.db, "SELECT * FROM audit_blocks ORDER BY number DESC LIMIT 1")

    def newest(self) -> NextBlockInputs | None:
        """Return the time and retention of the newest block."""
        return _NEWEST.find(self.db, "SELECT * FROM audit_blocks ORDER BY number DESC LIMIT 1")

    def append(self, keep: Retention, now: Instant, key: CheckpointKey) -> Block:
        """Append a block of the oldest events that have none; it may be empty.

        Call `hold` first and judge again: of two processes only one may append.
        """
        head = self.head()
        number = 1 if head is None else head.number + 1
        events = _EVENTS.all(
            self.db,
            "UPDATE events SET block = :number WHERE block IS NULL AND id IN"
            " (SELECT id FROM events WHERE block IS NULL ORDER BY at, id LIMIT :limit)"
            " RETURNING *",
            number=number,
            limit=BLOCK,
        )
        events.sort(key=lambda event: (event.at, event.id))
        block = next_block(head, events, keep, now, key)
        # The primary key also rejects a second block of this number.
        _BLOCKS.send(self.db, "INSERT INTO audit_blocks (*) VALUES (*)", block)
        return block

    def hold(self) -> None:
        """Exclude other processes from appending until the transaction ends."""
        self.db.exclude(Lock.AUDIT_CHAIN)

    def page(self, after: int, limit: int) -> Sequence[Block]:
        """Return at most `limit` blocks behind this number, in order."""
        return _BLOCKS.all(
            self.db,
            "SELECT * FROM audit_blocks WHERE number > :after ORDER BY number LIMIT :limit",
            after=after,
            limit=limit,
        )

    def find(self, number: int) -> Block | None:
        """Return one block."""
        return _BLOCKS.find(
            self.db, "SELECT * FROM audit_blocks WHERE number = :number", number=number
        )

    def newest_by_retention(self, limit: int) -> Sequence[int]:
        """Return the number of the newest block with each retention; reads every block."""
        rows = self.db.rows(
            "SELECT max(number) FROM audit_blocks GROUP BY keep ORDER BY 1 DESC LIMIT :limit",
            limit=limit,
        )
        return [row[0] for row in rows]

    def events_of(self, block: Block) -> Sequence[ChainedEvent]:
        """Return the stored events that name this block and lie in its time."""
        return _EVENTS.all(
            self.db,
            "SELECT * FROM events WHERE at >= :first AND at <= :last AND block = :number",
            first=block.first_at,
            last=block.last_at,
            number=block.number,
        )

    def event(self, id: str) -> ChainedEvent | None:
        """Return an event by its id."""
        return _EVENTS.find(self.db, "SELECT * FROM events WHERE id = :id", id=id)

    def unlisted_events(
        self, at: Instant, after: str, limit: int
    ) -> tuple[Sequence[tuple[str, str]], tuple[Instant, str] | None]:
        """Look at `limit` events after a position for those that no block can list.

        Returns id and name of those that name a block that does not exist or whose time they are
        not in, and the next position; None at the end.
        """
        found = self.db.rows(
            "SELECT counted.id, counted.name FROM (SELECT id, at, name, block FROM events"
            " WHERE at > :at OR (at = :at AND id > :after) ORDER BY at, id LIMIT :limit) AS counted"
            " LEFT JOIN audit_blocks ON audit_blocks.number = counted.block"
            " WHERE counted.block IS NOT NULL AND (audit_blocks.number IS NULL"
            " OR counted.at < audit_blocks.first_at OR counted.at > audit_blocks.last_at)",
            at=at,
            after=after,
            limit=limit,
        )
        rows = self.db.rows(
            "SELECT at, id FROM events WHERE at > :at OR (at = :at AND id > :after)"
            " ORDER BY at, id LIMIT 1 OFFSET :skipped",
            at=at,
            after=after,
            skipped=limit - 1,
        )
        return [(id_, name) for id_, name in found], (
            Instant(rows[0][0]),
            rows[0][1],
        ) if rows else None

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` blocks from the start whose events are all from before `before`.

        The last of these stays: it shows that the blocks before it had expired.
        """
        return self.db.run(
            "DELETE FROM audit_blocks WHERE number IN"
            " (SELECT number FROM audit_blocks ORDER BY number LIMIT :limit)"
            " AND number < (SELECT max(number) FROM audit_blocks)"
            " AND number < (SELECT coalesce(min(counted.number), :limitless) - 1"
            " FROM (SELECT number, last_at FROM audit_blocks ORDER BY number LIMIT :more)"
            " AS counted WHERE counted.last_at >= :before)",
            before=before,
            limit=limit,
            more=limit + 2,
            limitless=1 << 62,
        )


_EVENTS = Record(ChainedEvent, "events")
_BLOCKS = Record(Block, "audit_blocks")
_NEWEST = Record(NextBlockInputs, "audit_blocks")


class AuditExports(Struct, frozen=True):
    """Store the progress of each export: its last block, and the process that delivers."""

    db: Connection

    def is_due(self, destination: str, holder: str, now: Instant) -> bool:
        """Return whether a block waits, and no other process delivers."""
        row = self.db.row(
            "SELECT 1 FROM audit_blocks WHERE number > coalesce((SELECT block FROM audit_exports"
            " WHERE destination = :destination), 0) AND NOT EXISTS (SELECT 1 FROM audit_exports"
            " WHERE destination = :destination AND holder <> :holder AND held_until > :now)"
            " LIMIT 1",
            destination=destination,
            holder=holder,
            now=now,
        )
        return row is not None

    def claim(self, destination: str, holder: str, now: Instant, until: Instant) -> int | None:
        """Hold the destination; return the last block that it has. None while another holds it."""
        row = self.db.row(
            "INSERT INTO audit_exports (destination, block, holder, held_until)"
            " VALUES (:destination, 0, :holder, :until) ON CONFLICT (destination)"
            " DO UPDATE SET holder = :holder, held_until = :until"
            " WHERE audit_exports.holder = :holder OR audit_exports.held_until <= :now"
            " RETURNING block",
            destination=destination,
            holder=holder,
            now=now,
            until=until,
        )
        return None if row is None else int(row[0])

    def advance(self, destination: str, holder: str, block: int) -> bool:
        """Note that the destination has this block. False if another process took over."""
        moved = self.db.run(
            "UPDATE audit_exports SET block = :block"
            " WHERE destination = :destination AND holder = :holder AND block < :block",
            destination=destination,
            holder=holder,
            block=block,
        )
        return moved == 1

    def waiting_since(self) -> Mapping[str, Instant | None]:
        """Return for each destination the time of the oldest block that it does not have.

        None if it has all.
        """
        rows = self.db.rows(
            "SELECT destination, (SELECT at FROM audit_blocks WHERE number > audit_exports.block"
            " ORDER BY number LIMIT 1) FROM audit_exports ORDER BY destination"
        )
        return {name: None if at is None else Instant(at) for name, at in rows}
