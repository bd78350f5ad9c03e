"""What a PostgreSQL server tells of its clock and its standbys; SQLite has neither."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.database.engine import Connection


class Standby(Struct, frozen=True):
    """A connected standby; without pg_monitor PostgreSQL hides everything but its name."""

    name: str
    state: str | None
    role: str | None
    seconds: int
    bytes: int


class Replication(Struct, frozen=True):
    """The standbys that commits wait for ("" for none), and those that are connected."""

    awaited: str
    standbys: Sequence[Standby]


def replication(db: Connection) -> Replication:
    """Return the standbys of a PostgreSQL server."""
    awaited = db.row("SELECT current_setting('synchronous_standby_names')")
    rows = db.rows(
        "SELECT application_name::text, state::text, sync_state::text,"
        " coalesce(CAST(EXTRACT(EPOCH FROM replay_lag) AS BIGINT), 0),"
        " coalesce(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS BIGINT), 0)"
        " FROM pg_stat_replication ORDER BY application_name"
    )
    return Replication(str(awaited[0]) if awaited else "", [Standby(*row) for row in rows])


def server_time(db: Connection) -> int:
    """Return the time of a PostgreSQL server's clock, in seconds since 1970."""
    row = db.row("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)")
    return int(row[0]) if row else 0
