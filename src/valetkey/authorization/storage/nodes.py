"""The nodes that run on this database, and the last backup of it."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.database import identity
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, days, minutes

MISSING_AFTER = minutes(2)
"""How long after its last heartbeat a node is taken for one that does not run."""

KEPT = days(1)
"""How long a node that was not stopped is remembered after its last heartbeat."""

_LISTED = 200


class Node(Struct, frozen=True):
    """The workers of one supervisor, with the time of their last heartbeat.

    `name` is that of the machine, and `address` where the authorization server listens: several
    nodes may have both in common, as in containers.
    """

    id: str
    holder: str
    """The process that writes the heartbeats."""
    name: str
    address: str
    version: str
    started_at: Instant
    seen_at: Instant

    def is_running(self, now: Instant) -> bool:
        """Return whether its last heartbeat is recent."""
        return self.seen_at > now - MISSING_AFTER

    def is_replaced(self, started_at: Instant) -> bool:
        """Return whether one in its place, which started at this time, makes up for it."""
        return self.seen_at <= started_at and self.started_at < started_at


class Nodes(Struct, frozen=True):
    """Store heartbeats. Every `now` is of the database's clock, whichever node asks."""

    db: Connection

    def add(self, node: Node) -> None:
        """Record a process that starts: from now on, the heartbeats of its node are its own.

        Those that it replaced two minutes ago or earlier are forgotten.
        """
        _NODES.run(
            self.db,
            "INSERT INTO nodes (*) VALUES (*) ON CONFLICT (id) DO UPDATE"
            " SET holder = excluded.holder, version = excluded.version,"
            " seen_at = excluded.seen_at",
            node,
        )
        self.db.send(
            "DELETE FROM nodes WHERE name = :name AND address = :address"
            # Of the row, which an earlier process of the node may have added.
            " AND seen_at <= (SELECT started_at FROM nodes WHERE id = :id) - :silence",
            name=node.name,
            address=node.address,
            id=node.id,
            silence=MISSING_AFTER,
        )

    def renew(self, node: Node) -> None:
        """Record a heartbeat, unless another process writes those of this node.

        Heartbeats of more than `KEPT` ago are deleted.
        """
        _NODES.run(
            self.db,
            "INSERT INTO nodes (*) VALUES (*) ON CONFLICT (id) DO UPDATE"
            " SET holder = excluded.holder, seen_at = excluded.seen_at"
            # The other one may have failed before it was ready.
            " WHERE nodes.holder = excluded.holder OR nodes.seen_at < :since",
            node,
            since=node.seen_at - MISSING_AFTER // 2,
        )
        self.db.send("DELETE FROM nodes WHERE seen_at <= :until", until=node.seen_at - KEPT)

    def remove(self, node: Node) -> None:
        """Forget a node that stops, and those it replaced, unless another process has its place."""
        row = self.db.row(
            "DELETE FROM nodes WHERE id = :id AND holder = :holder RETURNING started_at",
            id=node.id,
            holder=node.holder,
        )
        if row is not None:
            self.db.send(
                "DELETE FROM nodes WHERE name = :name AND address = :address"
                " AND seen_at <= :started_at AND started_at < :started_at",
                name=node.name,
                address=node.address,
                started_at=row[0],
            )

    def list(self, now: Instant) -> Sequence[Node]:
        """Return running nodes, and those that were not stopped within `KEPT`, by name.

        A node is left out once one of the same name and address started after its last heartbeat.
        """
        nodes = _NODES.all(
            self.db,
            "SELECT * FROM nodes WHERE seen_at > :until ORDER BY seen_at DESC LIMIT :limit",
            until=now - KEPT,
            limit=_LISTED,
        )
        newest: dict[tuple[str, str], Instant] = {}
        for node in nodes:
            key = node.name, node.address
            newest[key] = max(node.started_at, newest.get(key, node.started_at))
        return sorted(
            (node for node in nodes if not node.is_replaced(newest[node.name, node.address])),
            key=lambda node: (node.name, node.address, node.started_at),
        )


class BackupKind(StrEnum):
    """What made a backup."""

    FILES = "files"
    """`valetkey database backup`: files of both databases."""
    RECORDED = "recorded"
    """Another program, as an operator recorded."""


class Backup(Struct, frozen=True):
    """A finished backup: what made it, its size (0 if unknown), and the epoch of the database."""

    kind: BackupKind
    bytes: int
    finished_at: Instant
    epoch: int


class Backups(Struct, frozen=True):
    """Store the last backup. A backup does not contain its own record."""

    db: Connection

    def record(self, kind: BackupKind, bytes: int, now: Instant) -> None:
        """Record that a backup is finished now."""
        _BACKUPS.run(
            self.db,
            "INSERT INTO backups (name, kind, bytes, finished_at, epoch)"
            " VALUES ('last', :kind, :bytes, :finished_at, :epoch) ON CONFLICT (name) DO UPDATE"
            " SET kind = excluded.kind, bytes = excluded.bytes,"
            " finished_at = excluded.finished_at, epoch = excluded.epoch",
            Backup(kind, bytes, now, self._epoch()),
        )

    def last(self) -> Backup | None:
        """Return the last backup; None if none is known."""
        return _BACKUPS.find(self.db, "SELECT * FROM backups WHERE name = 'last'")

    def is_of_now(self, backup: Backup) -> bool:
        """Return whether the database was not restored since."""
        return backup.epoch == self._epoch()

    def _epoch(self) -> int:
        seen = identity.find(self.db)
        return 0 if seen is None else seen.epoch


_NODES = Record(Node, "nodes")
_BACKUPS = Record(Backup, "backups")
