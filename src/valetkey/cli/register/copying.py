"""Copy the databases of both servers to those of another configuration."""

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct

from valetkey.cli import say
from valetkey.cli.register.store import SCHEMAS, open_database
from valetkey.config.agreement import servers
from valetkey.config.installation import lag
from valetkey.config.paths import database_file, keyring_path, last_seen_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.copying import DIALECTS, DatabaseCopy, Side, TableCheck, release_source
from valetkey.database.identity import Seen, lagging, last_seen, remember
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

Report = Callable[[str], None]


class Copied(Struct, frozen=True):
    """The counts of one server's copied rows, compared at the end."""

    server: str
    rows: int
    tables: Sequence[TableCheck]


class _Move(Struct, frozen=True):
    """The copy of one server's database, with the settings of both sides."""

    name: str
    new: Settings
    server: ServerSettings
    copy: DatabaseCopy


async def copy_databases(
    old: Settings, new: Settings, names: Sequence[str], tell: Report
) -> Sequence[Copied]:
    """Copy the databases of the named servers, compare them, and switch over.

    `tell` is called with the progress. Raises OperatorError, before anything is changed where the
    two configurations contradict each other.
    """
    _check_keyrings(old, new)
    async with AsyncExitStack() as stack:
        moves = [await _open(stack, old, new, name) for name in names]
        for move in moves:
            await _inspect(move)
        return await _copy([move for move in moves if not move.copy.complete], tell)


async def cancel_copy(settings: Settings, name: str) -> bool:
    """Let the servers write to their database again; return whether a copy had begun."""
    async with AsyncExitStack() as stack:
        side = await _side(stack, settings, name, begins=False)
        return await side.engine.change_schema(lambda db: release_source(db, side.dialect))


async def _copy(moves: Sequence[_Move], report: Report) -> Sequence[Copied]:
    # Each step for both servers before the next: they stop writing, and change over, together.
    fresh, copied = SYSTEM.random(16).hex(), list[Copied]()
    for move in moves:
        await move.copy.begin(fresh, SYSTEM.now())
        say.note(f"{move.name}: writes are refused until the copy is complete or cancelled")
    for move in moves:
        await move.copy.copy(_progress(move, "copied", report))
    for move in moves:
        checks = await move.copy.check(_progress(move, "checked", report))
        copied.append(Copied(move.name, move.copy.total, checks))
    handed = [(move, await move.copy.retire()) for move in moves]
    for move, seen in handed:
        _remember(move, await move.copy.finish(seen))
    return copied


async def _inspect(move: _Move) -> None:
    try:
        await move.copy.inspect()
    except OperatorError as wrong:
        raise OperatorError(wrong.message, f"{move.name}.database") from None
    note = last_seen_path(move.new, move.server)
    known, source = last_seen(note), await move.copy.identity()
    if known is not None and source is not None and known.database != source.database:
        message = f"its server knows another database by {note}; remove that file if it is not used"
        raise OperatorError(message, f"{move.name}.database")


def _remember(move: _Move, seen: Seen) -> None:
    # Without write access to the folder, the server records it when it starts.
    with contextlib.suppress(OperatorError):
        note = last_seen_path(move.new, move.server)
        remember(note, lagging(seen, lag(move.new, move.server)))


def _progress(move: _Move, verb: str, report: Report) -> Report:
    copy = move.copy
    return lambda table: report(
        f"{move.name}: {verb} {copy.done:,} of {copy.total:,} rows ({table})"
    )


async def _open(stack: AsyncExitStack, old: Settings, new: Settings, name: str) -> _Move:
    ours, theirs = dict(servers(old)).get(name), dict(servers(new)).get(name)
    if ours is None or theirs is None:
        raise OperatorError(
            "the resource server is disabled in one of the two files", "resource.enabled"
        )
    if _place(old, ours) == _place(new, theirs):
        message = "both files name the same database; is it set in the environment, too?"
        raise OperatorError(message, f"{name}.database")
    source = await _side(stack, old, name, begins=False)
    target = await _side(stack, new, name, begins=True)
    return _Move(name, new, theirs, DatabaseCopy(source, target, SCHEMAS[name]))


async def _side(stack: AsyncExitStack, settings: Settings, name: str, *, begins: bool) -> Side:
    server = dict(servers(settings))[name]
    file = database_file(settings, server)
    if file is not None and not begins and not file.exists():
        raise OperatorError(f"there is no database at {file}", f"{name}.database")
    engine = open_database(settings, server, begins=begins)
    stack.push_async_callback(engine.close)
    return Side(engine, DIALECTS[server.database.partition(":")[0]])


def _place(settings: Settings, server: ServerSettings) -> str:
    file = database_file(settings, server)
    return str(file.resolve()) if file else server.database


def _check_keyrings(old: Settings, new: Settings) -> None:
    keys = [_keyring(each) for each in (old, new)]
    if keys[0] != keys[1]:
        message = (
            "both files must lead to the same keyring, or the copy cannot be read: copy "
            f"{keyring_path(old)}, or name it in both files"
        )
        raise OperatorError(message, "authorization.keyring")


def _keyring(settings: Settings) -> str:
    text = settings.authorization.keyring_text
    if text is not None:
        return Keyring.parse(text.reveal()).text()
    file = keyring_path(settings)
    try:
        return Keyring.parse(file.read_text(encoding="utf-8")).text()
    except OSError as reason:
        why = (reason.strerror or "cannot be read").lower()
        raise OperatorError(f"{file}: {why}", "authorization.keyring") from None
