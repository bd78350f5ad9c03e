"""`valetkey database`: migrate, check, back up and copy the databases of both servers."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

import click
from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from valetkey.authorization.actions.inspection.machine import clock_of, own_database
from valetkey.authorization.storage.nodes import BackupKind, Backups
from valetkey.cli import options, say
from valetkey.cli.doctoring import health_of_servers, size
from valetkey.cli.options import stamp
from valetkey.cli.register import restoring
from valetkey.cli.register.store import (
    SCHEMAS,
    OpenedStore,
    confirm,
    is_begun,
    open_database,
    with_store,
)
from valetkey.cli.say import Exit
from valetkey.config.agreement import servers
from valetkey.config.installation import forget_missing, open_tested, require_file
from valetkey.config.paths import database_file
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import Connection, DatabaseUnavailable, SelfTest, split
from valetkey.database.identity import is_missing
from valetkey.database.migrate import pending
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_BYTES_A_SECOND = 20 * (1 << 20)
"""Rate at which a slow disk reads or writes the tables of a statement."""

_LOWEST_PRIORITY = 19

_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_LOCKS = (
    (re.compile(r"CREATE TABLE\b", re.IGNORECASE), "none on tables in use", False),
    (re.compile(r"CREATE (UNIQUE )?INDEX\b", re.IGNORECASE), "SHARE: writes wait", True),
    (re.compile(r"ALTER TABLE\b.*\bADD\b", re.IGNORECASE), "ACCESS EXCLUSIVE: all wait", False),
    (re.compile(r"(ALTER|DROP)\b", re.IGNORECASE), "ACCESS EXCLUSIVE: all wait", False),
    (re.compile(r"(INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE), "of the rows that change", True),
)


class MigrationStep(Struct, frozen=True):
    """One statement: its migration, its text on one line, its lock, whether it reads a table."""

    migration: str
    statement: str
    lock: str
    reads_table: bool


class MigrationPlan(Struct, frozen=True):
    """The statements that migrate one server's tables, all in one transaction.

    `seconds` is an upper bound for a database of so many bytes on a slow disk.
    """

    server: str
    steps: tuple[MigrationStep, ...]
    bytes: int
    seconds: int


async def _plan(settings: Settings, name: str, server: ServerSettings) -> MigrationPlan:
    """Find the missing migrations; changes nothing. Raises OperatorError for a newer database."""
    engine = open_database(settings, server)
    try:
        migrations = await pending(engine, SCHEMAS[name])
        file = database_file(settings, server)
        size = file.stat().st_size if file else await engine.scan(_size)
    finally:
        await engine.close()
    steps = tuple(
        step
        for migration in migrations
        for step in _steps(migration.name, migration.script, is_file=file is not None)
    )
    whole = sum(step.reads_table for step in steps)
    return MigrationPlan(name, steps, size, ceil(whole * size / _BYTES_A_SECOND))


def _steps(migration: str, script: str, *, is_file: bool) -> Iterator[MigrationStep]:
    for statement in split(script):
        text = " ".join(_COMMENT.sub("", statement).split())
        lock, reads = _lock(text)
        yield MigrationStep(
            migration, text, "the database: writes wait" if is_file else lock, reads
        )


def _lock(statement: str) -> tuple[str, bool]:
    for pattern, lock, reads in _LOCKS:
        if pattern.match(statement):
            return lock, reads
    return "unknown", True


def _size(db: Connection) -> int:
    # Asked of PostgreSQL alone: the size of a SQLite database is that of its file.
    row = db.row("SELECT pg_database_size(current_database())")
    return int(row[0]) if row else 0


def forget_missing_databases(settings: Settings, names: Sequence[str]) -> None:
    """Forget the missing databases of the servers of these names.

    Raises OperatorError where none is missing: left in a unit file, the option would disable the
    check.
    """
    selected = [(name, server) for name, server in servers(settings) if name in names]
    forgotten = [name for name, server in selected if asyncio.run(forget_missing(settings, server))]
    if not forgotten:
        raise OperatorError("no known database is missing; leave --new out")
    for name in forgotten:
        say.note(f"{name}: begins with an empty database")


@click.group()
def command() -> None:
    """Migrate, check, back up and copy the databases of both servers.

    Example: valetkey database check
    """


@command.command("migrate")
@click.option("--plan", is_flag=True, help="Show what would be done, with its locks; do nothing.")
@options.new
@options.config_file
@options.as_json
def migrate(plan: bool, new: bool, config: Path | None, as_json: bool) -> int:
    """Migrate the databases of both servers to this version, as `valetkey serve` does at start.

    The migrations of each server are one transaction. A database of a newer version is refused, and
    one that does not behave as PostgreSQL does.

    Example: valetkey database migrate
    """
    settings = options.settings_of(config)
    if plan:
        return _show_plans(settings, as_json=as_json)
    if new:
        forget_missing_databases(settings, ("authorization", "resource"))
    for name, server in servers(settings):
        if name == "authorization" and asyncio.run(_may_begin(settings, server)):
            # Check the keyring first: a database without one could never be used.
            with_store(settings, _nothing, begins=True)
        tested = asyncio.run(_migrate(settings, name, server))
        say.line(f"{name}: the tables are up to date")
        for risk in tested.risks:
            say.note(f"{name}: PostgreSQL runs with {risk}: a crash may lose what was committed")
    return Exit.OK


@command.command()
@options.config_file
@options.as_json
def check(config: Path | None, as_json: bool) -> int:
    """Check that each database responds, is up to date and can be written to.

    Exit code 1 if one does not. Changes only one row that exists to test writing.

    Example: valetkey database check
    """
    settings = options.settings_of(config)
    reports = asyncio.run(health_of_servers(settings))
    if as_json:
        say.as_json([asdict(health) for health in reports])
    else:
        for health in reports:
            mark = say.coloured("ok", "green") if health.ok else say.coloured("no", "red")
            say.line(f"{mark}  {health.server}: {health.found}")
            if health.next:
                say.line(f"    {health.next}")
    return Exit.OK if all(health.ok for health in reports) else Exit.FAILED


@command.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--record",
    is_flag=True,
    help="Copy nothing; record that another program, such as pg_dump, has made a backup now.",
)
@options.config_file
@options.as_json
def backup(directory: Path | None, record: bool, config: Path | None, as_json: bool) -> int:
    """Copy the SQLite databases into DIRECTORY while the servers keep running.

    The files are named after the server and the time. The keys are not in them: see
    `valetkey key backup`. PostgreSQL has pg_dump for this.

    The console's overview and `valetkey doctor` say when the last one was made.

    Example: valetkey database backup /var/backups/valetkey
    """
    settings = options.settings_of(config)
    if record == (directory is not None):
        raise OperatorError("name either a DIRECTORY or --record")
    if directory is None:
        asyncio.run(_record_backup(settings, BackupKind.RECORDED, 0))
        if as_json:
            say.as_json([])
        else:
            say.line("recorded: another program has made a backup")
        return Exit.OK
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as reason:
        raise OperatorError(f"{directory}: {(reason.strerror or 'no').lower()}") from None
    when = stamp(SYSTEM.now())
    # Servers on this machine go first where both wait for a core.
    os.nice(_LOWEST_PRIORITY)
    files = [
        asyncio.run(_backup(settings, server, directory.absolute() / f"{name}-{when}.db"))
        for name, server in servers(settings)
        if is_begun(settings, server)
    ]
    if files and is_begun(settings, settings.authorization):
        try:
            total = sum(file.stat().st_size for file in files)
            asyncio.run(_record_backup(settings, BackupKind.FILES, total))
        except (DatabaseUnavailable, OperatorError) as reason:
            say.note(f"The time of this backup could not be recorded in the database: {reason}")
    if as_json:
        say.as_json([str(file) for file in files])
        return Exit.OK
    if not files:
        raise OperatorError("there is no database yet; `valetkey serve` makes both")
    for file in files:
        say.line(f"{file}  {size(file)}")
    say.note(
        "The backup does not contain the keys. Back them up separately: valetkey key backup FILE"
    )
    return Exit.OK


@command.command()
@click.option(
    "--authorization",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A backup to put in the place of the authorization server's SQLite database.",
)
@click.option(
    "--resource",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The same for the resource server.",
)
@click.option(
    "--accept",
    is_flag=True,
    help="Continue although there is no record of what ended after the backup.",
)
@options.yes
@options.config_file
def restore(
    authorization: Path | None,
    resource: Path | None,
    accept: bool,
    yes: bool,
    config: Path | None,
) -> int:
    """Restore backups, or complete a restore made by other tools, and end all earlier access.

    Stop the servers first. Without files the databases are taken as they are: after a restore of
    PostgreSQL, or of SQLite by hand. Replaced files are kept beside the new ones.

    All users have to sign in and all apps have to ask again: sessions, grants, codes, tokens, API
    tokens, invitations and signing keys end. Users and clients that were disabled after the backup,
    or whose passwords, factors, roles or secrets were replaced, are disabled: enable them one by
    one.

    Example: valetkey database restore --authorization backups/authorization-20260401T120000Z.db
    """
    settings = options.settings_of(config)
    files = {"authorization": authorization, "resource": resource}
    confirm("Both servers must be stopped; all sessions and tokens end. Continue?", yes=yes)
    chosen = [
        named_server
        for named_server in servers(settings)
        if not any(files.values()) or files[named_server[0]]
    ]
    for name, server in chosen:
        if (file := files[name]) is not None:
            restoring.replace_database(settings, name, server, file, accept=accept)
    for name, _ in chosen:
        if name == "resource":
            asyncio.run(restoring.accept_resource_database(settings))
            say.line("resource: its server accepts this database from now on")
            continue
        restored = asyncio.run(restoring.revoke_all_issued(settings, accept=accept))
        say.line(f"authorization: epoch {restored.epoch} begins; all users sign in again")
        for uid in restored.users:
            say.line(f"    disabled: user {uid}; next: valetkey user enable {uid}")
        for client in restored.clients:
            say.line(f"    disabled: client {client}; next: valetkey client enable {client}")
    return Exit.OK


@command.command("copy")
@click.argument("old", metavar="FROM", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("new", metavar="TO", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--server",
    type=click.Choice(["authorization", "resource"]),
    help="Copy the database of this server only.",
)
@click.option("--cancel", is_flag=True, help="Cancel an unfinished copy; FROM stays in use.")
@options.yes
@options.as_json
def copy(old: Path, new: Path, server: str | None, cancel: bool, yes: bool, as_json: bool) -> int:
    """Copy the databases of the configuration FROM to those of TO, then switch to TO.

    FROM and TO are configuration files that lead to the same keyring; the databases of TO are
    empty. Running servers go on answering what only reads; everything else gets 503. At the end
    both sides are compared row by row, and the servers of FROM stop answering: start them with TO.

    Run it again after an interruption: it continues.

    Example: valetkey database copy valetkey.toml postgresql.toml
    """
    before, after = options.settings_of(old), options.settings_of(new)
    names = [server] if server else [name for name, _ in servers(before)]
    if cancel:
        for name in names:
            begun = asyncio.run(restoring.cancel_copy(before, name))
            say.line(f"{name}: {'accepts writes again' if begun else 'no copy was begun'}")
        return Exit.OK
    confirm("Make the servers refuse writes now, and use the copy from then on?", yes=yes)
    copied = asyncio.run(restoring.copy_databases(before, after, names, say.progress))
    if as_json:
        say.as_json([to_builtins(database) for database in copied])
        return Exit.OK
    for database in copied:
        say.line(
            f"{database.server}: {database.rows:,} rows in {len(database.tables)} tables, compared"
        )
    say.note(f"Start the servers with {new}. Servers that run with {old} answer 503 from now on.")
    return Exit.OK


def _show_plans(settings: Settings, *, as_json: bool) -> int:
    plans = [
        asyncio.run(_plan(settings, name, server))
        for name, server in servers(settings)
        if is_begun(settings, server)
    ]
    if as_json:
        say.as_json([to_builtins(plan) for plan in plans])
        return Exit.OK
    for plan in plans:
        if not plan.steps:
            say.line(f"{plan.server}: nothing to do")
            continue
        mebibytes = plan.bytes >> 20
        say.line(
            f"{plan.server}: {len(plan.steps)} statements in one transaction, at most about "
            f"{max(1, plan.seconds)} s ({mebibytes} MiB on a slow disk)"
        )
        for step in plan.steps:
            say.line(f"    {step.migration}: {step.statement}")
            say.line(f"        lock: {step.lock}")
    return Exit.OK


async def _nothing(_: OpenedStore) -> None:
    """Do nothing beyond opening the database."""


async def _may_begin(settings: Settings, server: ServerSettings) -> bool:
    """Return whether migrating may create the keyring: not for PostgreSQL with tables.

    Its keyring may be on another machine.
    """
    if database_file(settings, server) is not None:
        return True
    engine = open_database(settings, server, begins=True)
    try:
        return await is_missing(engine)
    finally:
        await engine.close()


async def _migrate(settings: Settings, name: str, server: ServerSettings) -> SelfTest:
    require_file(settings, server, begins=True)
    engine = open_database(settings, server, begins=True)
    try:
        return await open_tested(settings, server, engine, SCHEMAS[name], SYSTEM)
    finally:
        await engine.close()


async def _backup(settings: Settings, server: ServerSettings, file: Path) -> Path:
    engine = open_database(settings, server)
    try:
        await engine.backup(str(file))
    finally:
        await engine.close()
    return file


async def _record_backup(settings: Settings, kind: BackupKind, size: int) -> None:
    """Record in the database that a backup is finished.

    Raises OperatorError if its tables are not those of this version, and DatabaseUnavailable.
    """
    engine = open_database(settings, settings.authorization)

    def record(db: Connection) -> None:
        now = clock_of(db, own_database(settings), SYSTEM.now())
        Backups(db).record(kind, size, now)

    try:
        if missing := await pending(engine, SCHEMAS["authorization"]):
            names = ", ".join(migration.name for migration in missing)
            raise OperatorError(f"its tables are older than this version: {names}")
        await engine.write(record)
    finally:
        await engine.close()
