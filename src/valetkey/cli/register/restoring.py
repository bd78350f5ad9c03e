"""Restore: begin a new epoch, in which no credential issued before works."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from valetkey.authorization.background.revocation_log import log_revocations
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.event.administration import DatabaseRestored
from valetkey.authorization.model.event.clients import (
    ClientChanged,
    ClientDisabled,
    ClientRemoved,
    ClientSecretEnded,
    ClientSecretIssued,
    ClientVerificationEnded,
    TeamMemberChanged,
    TeamMemberRemoved,
)
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.event.sessions import RecoveryCodeUsed
from valetkey.authorization.model.event.users import DeveloperDismissed
from valetkey.authorization.model.register.client import RESOURCE_SERVER
from valetkey.authorization.storage.administration.restoration import LoggedRevocation
from valetkey.authorization.storage.revocation_log import RevocationLog
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.cli.register.store import SCHEMAS, foundation_without_setup, open_database, operator
from valetkey.config.installation import lag
from valetkey.config.paths import database_file, last_seen_path, revocation_log_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database import identity
from valetkey.database.engine import Connection, DatabaseUnavailable, Engine
from valetkey.database.migrate import migrate
from valetkey.database.sqlite_connection import replace_with_backup
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
    known = _known(settings, server)
    store = foundation_without_setup(settings).store
    try:
        found = await store.engine.read(identity.find)
        if known is None or found is None or identity.is_older(found, known):
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
    known = _known(settings, server)
    found = await engine.read(identity.find)
    fresh = identity.Seen(SYSTEM.random(16).hex(), 0, 0, SYSTEM.now())
    base = found or known or fresh
    every = [each for each in (base, known) if each is not None]
    return replace(
        base,
        epoch=max(each.epoch for each in every) + 1,
        number=max(each.number for each in every) + identity.LAG + 1,
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
    return [each for each in lost if each.at >= newest - _OVERLAP]


def _end_again(
    tx: Transaction, lost: Sequence[LoggedRevocation], epoch: int, now: Instant
) -> Restored:
    users: dict[int, None] = {}
    clients: dict[str, None] = {}
    for each in lost:
        if each.name == ClientVerificationEnded.name and each.client_id is not None:
            tx.restoration.end_verification(each.client_id)
        elif each.name in _TEAMS and each.uid is not None:
            tx.restoration.dismiss(each.uid, each.client_id)
        elif each.client_id == RESOURCE_SERVER:
            # The server registers the credential that it has when it starts.
            tx.restoration.end_secrets(RESOURCE_SERVER)
        elif each.name == RecoveryCodeUsed.name and each.uid is not None:
            tx.credentials.remove_recovery_codes(Uid(each.uid))
        elif each.name in _CLIENTS and each.client_id is not None:
            clients[each.client_id] = None
        elif each.uid is not None:
            users[each.uid] = None
    return Restored(
        epoch,
        [uid for uid in users if tx.restoration.disable_user(uid, now)],
        [each for each in clients if tx.restoration.disable_client(each, now)],
    )


def _unknown(why: str) -> OperatorError:
    return OperatorError(
        f"{why}: it is unknown which users and clients were disabled, and whose passwords and "
        "secrets were replaced, after the backup. Nothing was changed. To let them be as they were "
        "then, add --accept, and disable those you know of before you start the servers"
    )


_OVERLAP = 90
