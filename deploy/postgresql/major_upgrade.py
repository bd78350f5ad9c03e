"""Move a database to a newer PostgreSQL by logical replication, while requests are served.

Run it with the Python of Valetkey's virtual environment, which has psycopg, once for each database:

    python major_upgrade.py prepare --old URL --new URL
    python major_upgrade.py switch --old URL --new URL --pooler URL --pooler URL --point COMMAND
    python major_upgrade.py abandon --old URL --new URL

URLs of databases name a superuser. Each pooler is the admin console of a PgBouncer in transaction
mode, through which all nodes reach the database. The guide:
docs/how-to/operate/upgrade-postgresql.md
"""

import argparse
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ExecStatus
from psycopg.sql import SQL, Identifier, Literal

_NAME = "valetkey_upgrade"
_LONGEST_COPY = 24 * 3600.0  # seconds
_POINTING = 20.0  # seconds for the command that points the poolers to the new server
_POLL = 0.02
_TABLES = """
    SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relpersistence = 'p'
       AND relnamespace = 'public'::regnamespace ORDER BY relname
"""
_COLUMNS = """
    SELECT table_name || '.' || column_name FROM information_schema.columns
     WHERE table_schema = 'public' ORDER BY 1
"""
# An UPDATE of such a table would fail as soon as it is published.
_WITHOUT_IDENTITY = """
    SELECT relname FROM pg_class AS c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
       AND (relreplident = 'n' OR (relreplident = 'd' AND NOT EXISTS
            (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)))
"""
_REPLICATED = "SELECT srrelid::regclass::text FROM pg_subscription_rel ORDER BY 1"
_UNFINISHED = "SELECT srrelid::regclass::text FROM pg_subscription_rel WHERE srsubstate <> 'r'"
_USERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = %s AND backend_type = 'client backend' AND pid <> %s
"""


class _Refused(Exception):
    """Why nothing was switched; all is as before."""


class _Stuck(Exception):
    """The old server stays closed and the poolers paused: what the operator has to do."""


class Databases:
    """The old database and the new one, and connections of a superuser to both.

    `beside` is another database of the old server, from which the old one is closed.
    """

    def __init__(self, old: str, new: str) -> None:
        """Connect. Raises `psycopg.Error`."""
        self.name = str(conninfo_to_dict(old)["dbname"])
        self.slot = f"{_NAME}_{''.join(c if c.isalnum() else '_' for c in self.name.lower())}"
        self._url = old
        self.beside = psycopg.connect(make_conninfo(old, dbname="postgres"), autocommit=True)
        self.new = psycopg.connect(new, autocommit=True)

    @cached_property
    def old(self) -> psycopg.Connection:
        """Connect to the old database when it is first needed: it may be closed."""
        return psycopg.connect(self._url, autocommit=True)

    def prepare(self, programs: str, new: str) -> None:
        """Copy schema and rows to the new database, and have it follow."""
        if _column(self.old, "SHOW wal_level") != ["logical"]:
            raise _Refused("set wal_level = logical on the old server and restart it")
        if without := _column(self.old, _WITHOUT_IDENTITY):
            raise _Refused(f"give these tables a primary key first: {', '.join(without)}")
        if _column(self.new, _TABLES):
            raise _Refused("the new database has tables already: create an empty one")
        dump = (f"{programs}pg_dump", "--schema-only", "--no-publications", "--no-subscriptions")
        schema = subprocess.run((*dump, self._url), check=True, capture_output=True).stdout
        load = (f"{programs}psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output")
        subprocess.run((*load, "/dev/null", "--dbname", new), input=schema, check=True)
        self.old.execute(f"CREATE PUBLICATION {_NAME} FOR ALL TABLES".encode())
        # Says within a second how far it is: the switch waits for that.
        self.new.execute(b"ALTER SYSTEM SET wal_receiver_status_interval = '1s'")
        self.new.execute(b"SELECT pg_reload_conf()")
        self.new.execute(
            SQL("CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {} WITH (slot_name = {})").format(
                Identifier(_NAME), Literal(self._url), Identifier(_NAME), Literal(self.slot)
            )
        )
        _wait(lambda: not _column(self.new, _UNFINISHED), _LONGEST_COPY, "the copy is not complete")
        self.new.execute(b"ANALYZE")

    def require_equal_schemas(self) -> None:
        """Raise `_Refused` if something is not replicated, as after an upgrade of Valetkey."""
        names = _column(self.old, _TABLES)
        if names != _column(self.new, _REPLICATED) or _column(self.new, _UNFINISHED):
            raise _Refused("not every table is replicated: `abandon`, and `prepare` again")
        if _column(self.old, _COLUMNS) != _column(self.new, _COLUMNS):
            raise _Refused("the columns differ: `abandon`, and `prepare` again")

    def catch_up(self, seconds: float) -> None:
        """Wait until the new database has, on its disk, all that was committed before now."""
        (lsn,) = _column(self.old, f"SELECT pg_logical_emit_message(true, '{_NAME}', '')::text")
        reached = "SELECT (confirmed_flush_lsn >= %s)::text FROM pg_replication_slots"
        reached += " WHERE slot_name = %s"
        _wait(
            lambda: _column(self.beside, reached, lsn, self.slot) == ["true"],
            seconds,
            "the new database does not catch up",
        )

    def close_old(self) -> None:
        """Refuse connections to the old database, also of superusers, and end the existing ones."""
        self._allow(connections=False)
        for _ in range(2):
            _wait(
                lambda: not _column(self.beside, _USERS, self.name, self.old.info.backend_pid),
                1.0,
                "connections to the old database do not end",
            )
            # One that was let in a moment before is not listed yet.
            time.sleep(0.1)

    def open_old(self) -> None:
        """Accept connections to the old database again."""
        self._allow(connections=True)

    def _allow(self, *, connections: bool) -> None:
        change = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        self.beside.execute(change.format(Identifier(self.name), Literal(connections)))

    def copy_sequences(self) -> None:
        """Continue the sequences, which are not replicated."""
        found = self.old.execute(
            b"SELECT schemaname, sequencename, last_value FROM pg_sequences"
            b" WHERE last_value IS NOT NULL"
        )
        for schema, name, value in found.fetchall():
            sequence = SQL("{}.{}").format(Identifier(schema), Identifier(name)).as_string(self.new)
            self.new.execute("SELECT setval(%s::regclass, %s)", (sequence, value))

    def hold_snapshot(self) -> None:
        """Begin to see the new database as it is now, for `differences`."""
        self.new.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.new.execute(b"SELECT 1")

    def differences(self) -> Sequence[str]:
        """Return the tables whose rows differ between the closed database and the snapshot."""
        found: list[str] = []
        for name in _column(self.old, _TABLES):
            rows = SQL(
                "SELECT count(*)::text || ' ' ||"
                " coalesce(sum(('x' || left(md5(t::text), 8))::bit(32)::bigint), 0) FROM {} AS t"
            ).format(Identifier("public", name))
            if self.old.execute(rows).fetchone() != self.new.execute(rows).fetchone():
                found.append(name)
        self.new.execute(b"COMMIT")
        return found

    def part(self) -> None:
        """End the replication."""
        name = _NAME.encode()
        if _column(self.new, "SELECT subname FROM pg_subscription WHERE subname = %s", _NAME):
            self.new.execute(b"ALTER SUBSCRIPTION %s DISABLE" % name)
            # It would connect to the old server, which refuses.
            self.new.execute(b"ALTER SUBSCRIPTION %s SET (slot_name = NONE)" % name)
            self.new.execute(b"DROP SUBSCRIPTION %s" % name)
        self.new.execute(b"ALTER SYSTEM RESET wal_receiver_status_interval")
        self.new.execute(b"SELECT pg_reload_conf()")
        slot = "SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots"

        def dropped() -> bool:
            with suppress(psycopg.errors.ObjectInUse):
                _column(self.beside, f"{slot} WHERE slot_name = %s", self.slot)
                return True
            return False

        _wait(dropped, 30.0, f"the replication slot {self.slot} is still in use")
        # A publication that stays in a closed database has no effect.
        with suppress(psycopg.OperationalError):
            self.old.execute(b"DROP PUBLICATION IF EXISTS %s" % name)


class Pooler:
    """The admin console of a PgBouncer."""

    def __init__(self, url: str, database: str) -> None:
        """Connect. Raises `psycopg.Error`."""
        self._connection = psycopg.connect(url, autocommit=True)
        self._database = database
        self._leads = self.leads_to()

    def leads_to(self) -> tuple[str, str, str]:
        """Return host, port and name of the database that clients reach."""
        with self._connection.execute(b"SHOW DATABASES") as found:
            assert found.description is not None
            names = [column.name for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        for row in rows:
            if row["name"] == self._database:
                return str(row["host"]), str(row["port"]), str(row["database"])
        raise _Refused(f"a pooler does not have the database {self._database}")

    def begin_pause(self) -> None:
        """Let running transactions end and new ones wait; `await_pause` says when they do."""
        self._connection.pgconn.send_query(f'PAUSE "{self._database}"'.encode())
        self._connection.pgconn.flush()

    def await_pause(self, until: float) -> None:
        """Wait until no transaction runs. Raises `_Refused` after `until`."""
        connection = self._connection.pgconn
        while connection.is_busy():
            left = max(0.0, until - time.monotonic())
            if not select.select([connection.socket], [], [], left)[0]:
                raise _Refused("a transaction does not end: repeat it at a quieter time")
            connection.consume_input()
        while (result := connection.get_result()) is not None:
            if result.status == ExecStatus.FATAL_ERROR:
                raise _Refused(f"a pooler cannot pause: {result.error_message.decode()}")

    def follow(self) -> None:
        """Read the changed configuration. Raises `_Stuck` if it leads to the same server."""
        self._connection.execute(b"RELOAD")
        if self.leads_to() == self._leads:
            raise _Stuck("a pooler still leads to the old server")

    def resume(self, url: str) -> None:
        """Let transactions go on."""
        # On another connection: the first one may wait for its pause.
        with psycopg.connect(url, autocommit=True) as console:
            console.execute(f'RESUME "{self._database}"'.encode())


def switch(these: Databases, poolers: Mapping[str, Pooler], point: str, limit: float) -> float:
    """Pause, close the old database, catch up, lead the poolers to the new one, and go on.

    Return the seconds of the pause. Raises `_Refused` if all is as before, and `_Stuck`.
    """
    these.require_equal_schemas()
    these.catch_up(30.0)
    began = time.monotonic()
    try:
        for pooler in poolers.values():
            pooler.begin_pause()
        for pooler in poolers.values():
            pooler.await_pause(began + limit)
        these.close_old()
        these.catch_up(began + limit - time.monotonic())
        these.copy_sequences()
        these.hold_snapshot()
    except BaseException:
        these.open_old()
        for url, pooler in poolers.items():
            pooler.resume(url)
        raise
    try:
        subprocess.run(point, shell=True, check=True, timeout=_POINTING)
        for pooler in poolers.values():
            pooler.follow()
        for url, pooler in poolers.items():
            pooler.resume(url)
    except (subprocess.SubprocessError, psycopg.Error) as problem:
        raise _Stuck(str(problem)) from problem
    return time.monotonic() - began


def _column(db: psycopg.Connection, sql: str, *values: object) -> list[str]:
    return [row[0] for row in db.execute(sql.encode(), values or None).fetchall()]


def _wait(until: Callable[[], bool], seconds: float, otherwise: str) -> None:
    ends = time.monotonic() + seconds
    while not until():
        if time.monotonic() > ends:
            raise _Refused(otherwise)
        time.sleep(_POLL)


def main() -> None:
    """Run a command; a status other than 0 says that the operator is needed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("command", choices=("prepare", "switch", "abandon"))
    parser.add_argument("--old", required=True, help="postgresql:// URL, as a superuser")
    parser.add_argument("--new", required=True, help="postgresql:// URL, as a superuser")
    parser.add_argument("--programs", default="", help="folder of the new pg_dump and psql")
    parser.add_argument("--pooler", action="append", default=[], help="URL of an admin console")
    parser.add_argument("--point", help="shell command that edits the poolers' configuration")
    parser.add_argument("--limit", type=float, default=4.0, help="seconds of pause, then go back")
    arguments = parser.parse_args()
    these = Databases(arguments.old, arguments.new)
    try:
        if arguments.command == "prepare":
            these.prepare(f"{arguments.programs}/" if arguments.programs else "", arguments.new)
            _say("prepared: the new database follows the old one")
        elif arguments.command == "abandon":
            these.part()
            _say("abandoned: drop the new database before another `prepare`")
        else:
            if not arguments.pooler or not arguments.point:
                parser.error("switch needs --pooler, for each one, and --point")
            poolers = {url: Pooler(url, these.name) for url in arguments.pooler}
            seconds = switch(these, poolers, arguments.point, arguments.limit)
            _say(f"switched: requests waited for {seconds:.2f} s")
            if different := these.differences():
                raise _Stuck(f"rows differ in {', '.join(different)}; old server kept as it was")
            these.part()
            _say("compared: every row is there; the old database accepts no connections")
    except _Refused as refused:
        sys.exit(f"nothing was changed: {refused}")
    except _Stuck as stuck:
        sys.exit(f"the old database stays closed: {stuck}. See the guide, section If it stops")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
