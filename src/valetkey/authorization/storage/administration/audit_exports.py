"""Store of the positions up to which the audit log was exported."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


class AuditExports(Struct, frozen=True):
    """One row for each destination: the last block that it has, and which process delivers."""

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
