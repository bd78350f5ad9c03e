"""`valetkey database`: migrate, check and back up the databases of both servers."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from valetkey.cli import options, say
from valetkey.cli.doctoring.health import healths, size
from valetkey.cli.register.moments import stamp
from valetkey.cli.register.store import SCHEMAS, is_begun, open_database
from valetkey.cli.say import Exit
from valetkey.config.agreement import servers
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.migrate import migrate
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.runtime import SYSTEM


@click.group()
def command() -> None:
    """Migrate, check and back up the databases of both servers.

    Example: valetkey database check
    """


@command.command("migrate")
@options.config_file
def migrate_(config: Path | None) -> int:
    """Bring the tables of both servers up to this version; `valetkey serve` does it too.

    Example: valetkey database migrate
    """
    settings = options.settings_of(config)
    for name, server in servers(settings):
        asyncio.run(_migrate(settings, name, server))
        say.line(f"{name}: the tables are those of this version")
    return Exit.OK


@command.command()
@options.config_file
@options.as_json
def check(config: Path | None, as_json: bool) -> int:
    """Whether each database answers, has this version's tables and can be written to.

    Exit code 1 if one does not. Changes nothing.

    Example: valetkey database check
    """
    settings = options.settings_of(config)
    found = asyncio.run(healths(settings))
    if as_json:
        say.as_json([asdict(health) for health in found])
    else:
        for health in found:
            mark = say.coloured("ok", "green") if health.ok else say.coloured("no", "red")
            say.line(f"{mark}  {health.server}: {health.found}")
            if health.next:
                say.line(f"    {health.next}")
    return Exit.OK if all(health.ok for health in found) else Exit.FAILED


@command.command()
@click.argument("directory", type=click.Path(path_type=Path))
@options.config_file
@options.as_json
def backup(directory: Path, config: Path | None, as_json: bool) -> int:
    """Copy the SQLite databases into DIRECTORY while the servers go on working.

    The files are named after the server and the time. The keys are not in them: see
    `valetkey key backup`. PostgreSQL has pg_dump for this.

    Example: valetkey database backup /var/backups/valetkey
    """
    settings = options.settings_of(config)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as reason:
        raise Mistake(f"{directory}: {(reason.strerror or 'no').lower()}") from None
    when = stamp(SYSTEM.now())
    files = [
        asyncio.run(_backup(settings, server, directory.absolute() / f"{name}-{when}.db"))
        for name, server in servers(settings)
        if is_begun(settings, server)
    ]
    if as_json:
        say.as_json([str(file) for file in files])
        return Exit.OK
    if not files:
        raise Mistake("there is no database yet; `valetkey serve` makes both")
    for file in files:
        say.line(f"{file}  {size(file)}")
    say.note("The keys are not in there. Keep them elsewhere: valetkey key backup FILE")
    return Exit.OK


async def _migrate(settings: Settings, name: str, server: ServerSettings) -> None:
    engine = open_database(settings, server)
    try:
        await migrate(engine, SCHEMAS[name])
    finally:
        await engine.close()


async def _backup(settings: Settings, server: ServerSettings, file: Path) -> Path:
    engine = open_database(settings, server)
    try:
        await engine.backup(str(file))
    finally:
        await engine.close()
    return file
