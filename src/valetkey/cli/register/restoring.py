"""Copy the databases of both servers, and restore them: no credential issued before works."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from valetkey.authorization.background.maintenance import log_revocations
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.model.event.accounts import DeveloperDismissed, RecoveryCodeUsed
from valetkey.authorization.model.event.administration import DatabaseRestored
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.event.grants import (
    ClientChanged,
    ClientDisabled,
    ClientRemoved,
    ClientSecretEnded,
    ClientSecretIssued,
    ClientVerificationEnded,
    TeamMemberChanged,
    TeamMemberRemoved,
)
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.restoration import LoggedRevocation, RevocationLog
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.cli import say
from valetkey.cli.register.store import SCHEMAS, foundation_without_setup, open_database, operator
from valetkey.config.agreement import servers
from valetkey.config.installation import lag
from valetkey.config.paths import database_file, keyring_path, last_seen_path, revocation_log_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database import identity
from valetkey.database.copying import DIALECTS, DatabaseCopy, Side, TableCheck, release_source
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine
from valetkey.database.identity import Seen, lagging, last_seen, remember
from valetkey.database.migrate import migrate
from valetkey.database.sqlite_connection import replace_with_backup
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

_TEAMS = frozenset((TeamMemberRemoved.name, TeamMemberChanged.name, DeveloperDismissed.name))
_CLIENTS = frozenset(
    (
        *(ClientDisabled.name, ClientRemoved.name, ClientChanged.name),
        *(ClientSecretEnded.name, ClientSecretIssued.name),
    )
)


class Restored(Struct, frozen=True):
    """The result of a restore: the accounts and clients that it disabled, and the new epoch."""

    epoch: int
    users: Sequence[int]
    clients: Sequence[str]


def replace_database(
    settings: Settings, name: str, server: ServerSettings, backup: Path, *, accept: bool
) -> None:
    """Replace this server's SQLite database by a backup.

    Raises OperatorError, with nothing changed, also if the record of what ended after the backup is
    missing and the operator does not accept that.
    """
    file = database_file(settings, server)
    if file is None:
        raise OperatorError("PostgreSQL is restored by its own tools; then run this without files")
    if name == "authorization" and file.exists():
        # Log revocations since a server last did. A damaged database cannot be read.
        with contextlib.suppress(DatabaseUnavailable, OperatorError, OSError):
            asyncio.run(_note(settings, server))
    if name == "authorization" and not accept and not revocation_log_path(settings).exists():
        raise _unknown(f"there is no {revocation_log_path(settings)}")
    try:
        aside = f".before-{SYSTEM.now()}"
        replace_with_backup(backup, file, package=SCHEMAS[name], aside=aside)
    except OSError as reason:
        raise OperatorError(f"{file} cannot be restored: {reason.strerror or reason}") from None


async def _note(settings: Settings, server: ServerSettings) -> None:
    last = _known(settings, server)
    store = foundation_without_setup(settings).store
    try:
        seen = await store.engine.read(identity.find)
        if last is None or seen is None or identity.is_older(seen, last):
            # The existing database may itself be a restored backup, without later revocations.
            return
        await log_revocations(store, RevocationLog(revocation_log_path(settings)))
    finally:
        await store.engine.close()


async def revoke_all_issued(settings: Settings, *, accept: bool) -> Restored:
    """End everything that was issued, and disable again what was disabled after the backup.

    Raises OperatorError if there is no record of that, unless the operator accepts it.
    """
    foundation = foundation_without_setup(settings)
    engine, store = foundation.store.engine, foundation.store
    try:
        await migrate(engine, SCHEMAS["authorization"])
        await foundation.require_own_keyring()
        now = SYSTEM.now()
        lost = await _lost(settings, store, accept=accept)
        seen = await _renew(settings, settings.authorization, engine)

        def end_everything(db: Connection) -> Restored:
            tx = Transaction(db, SYSTEM.random, by_cli(operator()))
            at = max(now, tx.restoration.newest())
            tx.restoration.end_everything(Instant(at))
            for end in store.hooks.restored:
                end(db, Instant(at))
            restored = _end_again(tx, lost, seen.epoch, now)
            users, clients = len(restored.users), len(restored.clients)
            tx.events.add(DatabaseRestored(seen.epoch, users, clients), now)
            identity.store_identity(db, seen)
            return restored

        restored = await engine.change_schema(end_everything)
        _remember(settings, settings.authorization, seen)
        return restored
    finally:
        await engine.close()


async def accept_resource_database(settings: Settings) -> None:
    """Make the current database of the resource server the one that its server expects."""
    engine = open_database(settings, settings.resource)
    try:
        await migrate(engine, SCHEMAS["resource"])
        seen = await _renew(settings, settings.resource, engine)
        await engine.write(lambda db: identity.store_identity(db, seen))
        _remember(settings, settings.resource, seen)
    finally:
        await engine.close()


def _known(settings: Settings, server: ServerSettings) -> identity.Seen | None:
    # A file that cannot be read is replaced: its error tells operators to run this command.
    with contextlib.suppress(OperatorError):
        return identity.last_seen(last_seen_path(settings, server))
    return None


def _remember(settings: Settings, server: ServerSettings, seen: identity.Seen) -> None:
    with contextlib.suppress(OperatorError):
        file = last_seen_path(settings, server)
        identity.remember(file, identity.lagging(seen, lag(settings, server)))


async def _renew(settings: Settings, server: ServerSettings, engine: Engine) -> identity.Seen:
    """Store and return the new identity: same id, new epoch, a number above every known one."""
    last = _known(settings, server)
    seen = await engine.read(identity.find)
    fresh = identity.Seen(SYSTEM.random(16).hex(), 0, 0, SYSTEM.now())
    base = seen or last or fresh
    every = [state for state in (base, last) if state is not None]
    return replace(
        base,
        epoch=max(state.epoch for state in every) + 1,
        number=max(state.number for state in every) + identity.LAG + 1,
        at=SYSTEM.now(),
    )


async def _lost(settings: Settings, store: Store, *, accept: bool) -> Sequence[LoggedRevocation]:
    """Return what ended after the backup was made, as far as it was recorded."""
    file = revocation_log_path(settings)
    if not file.exists():
        if not accept:
            raise _unknown(f"there is no {file}")
        return ()
    endings = RevocationLog(file)

    def find_lost(tx: Transaction) -> tuple[Instant, Sequence[LoggedRevocation]]:
        every = endings.all
        return tx.restoration.newest(), [e for e in every if not tx.restoration.has_event(e.id)]

    newest, lost = await store.scan(find_lost)
    if newest < endings.since and not accept:
        raise _unknown(f"{file} does not go back as far as the backup")
    # Deleted events are not a loss.
    return [revocation for revocation in lost if revocation.at >= newest - _OVERLAP]


def _end_again(
    tx: Transaction, lost: Sequence[LoggedRevocation], epoch: int, now: Instant
) -> Restored:
    users: dict[int, None] = {}
    clients: dict[str, None] = {}
    for revocation in lost:
        if revocation.name == ClientVerificationEnded.name and revocation.client_id is not None:
            tx.restoration.end_verification(revocation.client_id)
        elif revocation.name in _TEAMS and revocation.uid is not None:
            tx.restoration.dismiss(revocation.uid, revocation.client_id)
        elif revocation.client_id == RESOURCE_SERVER:
            # The server registers the credential that it has when it starts.
            tx.restoration.end_secrets(RESOURCE_SERVER)
        elif revocation.name == RecoveryCodeUsed.name and revocation.uid is not None:
            tx.credentials.remove_recovery_codes(Uid(revocation.uid))
        elif revocation.name in _CLIENTS and revocation.client_id is not None:
            clients[revocation.client_id] = None
        elif revocation.uid is not None:
            users[revocation.uid] = None
    return Restored(
        epoch,
        [uid for uid in users if tx.restoration.disable_user(uid, now)],
        [client_id for client_id in clients if tx.restoration.disable_client(client_id, now)],
    )


def _unknown(why: str) -> OperatorError:
    return OperatorError(
        f"{why}: it is unknown which users and clients were disabled, and whose passwords and "
        "secrets were replaced, after the backup. Nothing was changed. To let them be as they were "
        "then, add --accept, and disable those you know of before you start the servers"
    )


_OVERLAP = 90


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
        _remember_target(move, await move.copy.finish(seen))
    return copied


async def _inspect(move: _Move) -> None:
    try:
        await move.copy.inspect()
    except OperatorError as wrong:
        raise OperatorError(wrong.message, f"{move.name}.database") from None
    note = last_seen_path(move.new, move.server)
    last, source = last_seen(note), await move.copy.identity()
    if last is not None and source is not None and last.database != source.database:
        message = f"its server knows another database by {note}; remove that file if it is not used"
        raise OperatorError(message, f"{move.name}.database")


def _remember_target(move: _Move, seen: Seen) -> None:
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
    keys = [_keyring(settings) for settings in (old, new)]
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
