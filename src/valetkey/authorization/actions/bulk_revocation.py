"""End many tokens at once: a new generation ends them immediately, batches update their rows."""

from collections.abc import Sequence

from valetkey.authorization.authentication.session import (
    invalidate_user_jwts,
    revoke_ended,
    write_ended_sessions,
)
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.event.grants import ConsentWithdrawn
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.revocations import (
    BATCH,
    BulkRevocation,
    BulkRevocationKind,
    EndedGrant,
    RevokedKind,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


def end_all_of_client(tx: Transaction, client_id: str, now: Instant, because: str) -> None:
    """End every code, grant and token of the client."""
    tx.clients.begin_generation(client_id)
    issued_at = tx.events.newest_of_client(client_id)
    tx.revocations.add(RevokedKind.CLIENT, client_id, max(now, issued_at))
    ending = BulkRevocation(BulkRevocationKind.CLIENT, client_id, because, tx.done_by or SYSTEM)
    if _write(tx, ending, now) >= BATCH:
        tx.bulk_revocations.add(ending, now)


def end_all_of_api(tx: Transaction, api: Api, now: Instant, because: str) -> None:
    """End every code and token for the API, and its part of grants.

    Call it after the API began another generation or was deleted.
    """
    tx.revocations.add(RevokedKind.API, api.identifier, max(now, tx.events.newest_at()))
    ending = BulkRevocation(BulkRevocationKind.API, api.id, because, tx.done_by or SYSTEM)
    if _write(tx, ending, now) >= BATCH:
        tx.bulk_revocations.add(ending, now)


def end_all_of_user(
    tx: Transaction, uid: Uid, now: Instant, because: str, *, keep: str = ""
) -> None:
    """End every session but `keep`, and every code, grant, link and token of the user."""
    tx.users.hold_alone(uid)
    tx.sessions.begin_generation(uid, keep=keep)
    end_grants_of_user(tx, uid, now, because)


def end_grants_of_user(tx: Transaction, uid: Uid, now: Instant, because: str) -> None:
    """End every code, grant, link and token of the user, and no session."""
    tx.users.hold_alone(uid)
    tx.users.begin_generation(uid)
    ending = BulkRevocation(BulkRevocationKind.USER, str(uid), because, tx.done_by or SYSTEM)
    if _write(tx, ending, now) >= BATCH:
        invalidate_user_jwts(tx, uid, now)
        tx.bulk_revocations.add(ending, now)


def end_all_of_app(tx: Transaction, uid: Uid, client_id: str, now: Instant, because: str) -> bool:
    """End every grant between the user and the client. False if there was none."""
    tx.users.hold_alone(uid)
    live = tx.grants.live_of_app(uid, client_id, now, BATCH + 1)
    if len(live) <= BATCH:
        return (
            revoke_ended(
                tx, [EndedGrant(grant_id, uid, client_id) for grant_id in live], now, because
            )
            > 0
        )
    tx.grants.begin_app_generation(uid, client_id)
    ending = BulkRevocation(
        BulkRevocationKind.APP, f"{uid} {client_id}", because, tx.done_by or SYSTEM
    )
    _write(tx, ending, now)
    invalidate_user_jwts(tx, uid, now)
    tx.bulk_revocations.add(ending, now)
    return True


def end_all_apps_of_user(tx: Transaction, uid: Uid, now: Instant, because: str) -> None:
    """End every consent, code, grant and token of the user, and no session."""
    end_grants_of_user(tx, uid, now, because)
    end_consents_of_user(tx, uid, now, because)


def end_consents_of_user(tx: Transaction, uid: Uid, now: Instant, because: str) -> None:
    """End every consent of the user."""
    tx.users.hold_alone(uid)
    tx.consents.begin_generation(uid)
    ending = BulkRevocation(BulkRevocationKind.CONSENTS, str(uid), because, tx.done_by or SYSTEM)
    if _write(tx, ending, now) >= BATCH:
        tx.bulk_revocations.add(ending, now)


def empty_account(tx: Transaction, uid: Uid, now: Instant, because: str) -> None:
    """Delete all data of a removed user except the uid."""
    tx.account_removals.empty(uid, now)
    for delete_rows in tx.hooks.user_deleted:
        delete_rows(tx.db, uid)
    ending = BulkRevocation(
        BulkRevocationKind.USER_REMOVED, str(uid), because, tx.done_by or SYSTEM
    )
    if _write(tx, ending, now) >= BATCH:
        tx.bulk_revocations.add(ending, now)


def continue_oldest(tx: Transaction, now: Instant) -> int:
    """Write one batch of the oldest unfinished revocation; a full batch means that more is left."""
    ending = tx.bulk_revocations.first()
    if ending is None:
        return 0
    written = _write(tx.acting(ending.done_by), ending, now)
    if written >= BATCH:
        return BATCH
    tx.bulk_revocations.finish(ending)
    return written if tx.bulk_revocations.first() is None else BATCH


def _write(tx: Transaction, ending: BulkRevocation, now: Instant) -> int:
    """Write at most one batch of each kind of row. Return the largest number of rows of a kind.

    Those that another transaction ends meanwhile count: fewer than a batch were the last.
    """
    if ending.kind is BulkRevocationKind.CLIENT:
        grants = tx.bulk_revocations.grants_of_client(ending.subject, BATCH)
        return revoke_ended(tx, grants, now, ending.because)
    if ending.kind is BulkRevocationKind.API:
        grants = tx.apis.ended_grants(ending.subject, BATCH)
        over = [grant for grant in grants if tx.apis.leave(grant.id, ending.subject)]
        revoke_ended(tx, over, now, ending.because)
        return len(grants)
    subject, _, client_id = ending.subject.partition(" ")
    uid = Uid(int(subject))
    if ending.kind is BulkRevocationKind.APP:
        grants = tx.bulk_revocations.grants_of_app(uid, client_id, BATCH)
        return revoke_ended(tx, grants, now, ending.because)
    if ending.kind is BulkRevocationKind.USER_REMOVED:
        return tx.account_removals.delete_rows(uid, now, BATCH)
    if ending.kind is BulkRevocationKind.CONSENTS:
        clients = tx.consents.end_outdated(uid, BATCH)
        for client in clients:
            tx.events.add(ConsentWithdrawn(uid, client), now)
        return len(clients)
    of_user = (
        tx.bulk_revocations.grants_of_user(uid, BATCH)
        if ending.kind is BulkRevocationKind.USER
        else ()
    )
    return write_ended_sessions(tx, uid, now, ending.because, others=of_user)


def delete_clients(tx: Transaction, removed: Sequence[str], now: Instant) -> int:
    """Delete at most one batch of rows of removed clients. Return their number."""
    for client_id in removed:
        deleted = tx.bulk_revocations.delete_rows(client_id, BATCH)
        if deleted:
            # Other bulk revocations take turns between two batches.
            return BATCH
        for delete_rows in tx.hooks.client_deleted:
            delete_rows(tx.db, client_id)
        tx.clients.remove(client_id, now)
    return len(removed)
