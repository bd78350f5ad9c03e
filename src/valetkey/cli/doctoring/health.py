"""Check the health of a database: reachable, schema up to date, writable."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from msgspec import Struct

from valetkey.cli.register.store import SCHEMAS, is_begun, open_database
from valetkey.config.agreement import servers
from valetkey.config.paths import database_file
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.copying import copy_of
from valetkey.database.engine import DatabaseUnavailable, Engine, SelfTest
from valetkey.database.identity import is_missing
from valetkey.database.migrate import applied, find, migrate
from valetkey.database.watch import check_writable
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_DAMAGED = "The file is damaged. Stop the servers, then restore a backup: valetkey database restore"
_WRITES_NOT = "It answers, but cannot be written to: see its log, standbys, locks and disk."


class DatabaseHealth(Struct, frozen=True):
    """The health of one database."""

    server: str
    ok: bool
    found: str
    next: str = ""
    is_readable: bool = False
    """Whether its tables can be read, although it cannot be written to."""


async def health_of_servers(settings: Settings) -> Sequence[DatabaseHealth]:
    """Return the health of both databases."""
    return [await _health(settings, name, server) for name, server in servers(settings)]


async def _health(settings: Settings, name: str, server: ServerSettings) -> DatabaseHealth:
    try:
        if not is_begun(settings, server):
            return DatabaseHealth(name, False, "there is no database yet", "Next: valetkey serve")
        engine = open_database(settings, server)
    except (DatabaseUnavailable, OperatorError) as reason:
        return DatabaseHealth(name, False, str(reason), _advice(str(reason), ""))
    is_file = database_file(settings, server) is not None
    is_empty = True
    advice = "Is its disk full?" if is_file else "Is it running, and is the URL right?"
    try:
        is_empty = await is_missing(engine)
        # Its reasons say what to do.
        advice = ""
        tested = await engine.self_test(SYSTEM.random)
        advice = "Is its disk full?" if is_file else _WRITES_NOT
        notes = _file_size(settings, server) + _pooler(tested)
        return await _look(engine, name, notes, is_empty=is_empty)
    except OperatorError as error:
        return DatabaseHealth(name, False, str(error))
    except DatabaseUnavailable as reason:
        advice = _advice(str(reason), advice)
        return DatabaseHealth(name, False, str(reason), advice, is_readable=not is_empty)
    finally:
        await engine.close()


def _advice(reason: str, usual: str) -> str:
    """Return what to do about an unavailable database; SQLite names a damaged file."""
    return _DAMAGED if "malformed" in reason or "not a database" in reason else usual


async def _look(engine: Engine, name: str, notes: str, *, is_empty: bool) -> DatabaseHealth:
    if is_empty:
        return DatabaseHealth(
            name, False, "it has no tables yet", "Next: valetkey database migrate"
        )
    known = await engine.scan(applied)
    missing = [each.name for each in find(SCHEMAS[name]) if each.number not in known]
    if missing:
        found = f"its tables are older than this version: {', '.join(missing)}"
        return DatabaseHealth(name, False, found, "Next: valetkey database migrate")
    began = perf_counter()
    # Nothing is missing, so this only compares the applied migrations.
    await migrate(engine, SCHEMAS[name])
    if await engine.scan(copy_of):
        found = "it is being copied to another database and accepts no writes"
        return DatabaseHealth(
            name, False, found, "Next: finish `valetkey database copy`, or --cancel"
        )
    await check_writable(engine, SYSTEM.random)
    took = (perf_counter() - began) * 1_000
    return DatabaseHealth(
        name, True, f"answers, up to date, can be written to ({took:.0f} ms{notes})"
    )


def _file_size(settings: Settings, server: ServerSettings) -> str:
    file = database_file(settings, server)
    return f", {size(file)}" if file else ""


def _pooler(tested: SelfTest) -> str:
    return f", through a pooler in {tested.pooling} mode" if tested.pooling else ""


def size(file: Path) -> str:
    """Return the size of a file as text, in MiB."""
    mebibytes = file.stat().st_size / (1 << 20)
    return f"{mebibytes:.1f} MiB"
