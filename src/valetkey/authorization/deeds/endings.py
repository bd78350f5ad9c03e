"""End everything of a client or a user: at once by a new generation, row by row in batches."""

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.event.actor import SYSTEM
from valetkey.authorization.model.event.grants import GrantRevoked
from valetkey.authorization.sign_in.session import close_session
from valetkey.authorization.storage.tokens.endings import EndedKind, Ending
from valetkey.authorization.storage.tokens.revocations import RevokedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

BATCH = 100
"""Sessions and grants that are ended in one transaction."""


def end_all_of_client(tx: Transaction, client_id: str, now: Instant, because: str) -> None:
    """End every code, grant and token of the client."""
    tx.clients.begin_generation(client_id)
    issued_at = tx.events.newest_of_client(client_id)
    tx.revocations.add(RevokedKind.CLIENT, client_id, max(now, issued_at))
    ending = Ending(EndedKind.CLIENT, client_id, because, tx.done_by or SYSTEM)
    if _batch(tx, ending, now) >= BATCH:
        tx.endings.add(ending, now)


def end_all_of_user(
    tx: Transaction, uid: Uid, now: Instant, because: str, *, keep: str = ""
) -> None:
    """End every session but `keep`, and every code, grant and token of the user."""
    tx.users.hold_alone(uid)
    generation = tx.users.begin_generation(uid)
    if keep:
        tx.sessions.carry_over(keep, generation)
    ending = Ending(EndedKind.USER, str(uid), because, tx.done_by or SYSTEM)
    if _batch(tx, ending, now) >= BATCH:
        issued_at = tx.events.newest_of_person(uid)
        tx.revocations.add(RevokedKind.USER, str(uid), max(now, issued_at))
        tx.endings.add(ending, now)


def work_off(tx: Transaction, now: Instant) -> int:
    """Write a batch of the oldest ending that is not finished; how many rows it was."""
    ending = tx.endings.first()
    if ending is None:
        return 0
    ended = _batch(tx.acting(ending.done_by), ending, now)
    if ended < BATCH:
        tx.endings.finish(ending)
    return ended


def _batch(tx: Transaction, ending: Ending, now: Instant) -> int:
    """End at most a batch of sessions and grants; how many there were of the more numerous.

    Those that another transaction ends meanwhile count: fewer than a batch were the last.
    """
    if ending.kind is EndedKind.CLIENT:
        sessions = 0
        grants = tx.grants.outdated_of_client(ending.subject, BATCH)
    else:
        uid = Uid(int(ending.subject))
        outdated = tx.sessions.outdated_of(uid, now, BATCH)
        sessions = len(outdated)
        for session in outdated:
            close_session(tx, session, now, ending.because)
        grants = tx.grants.outdated_of_user(uid, BATCH)
    for grant in grants:
        if tx.grants.revoke(grant.id, now, ending.because):
            event = GrantRevoked(grant.uid, grant.client_id, grant.id, ending.because)
            tx.events.add(event, now)
    return max(sessions, len(grants))
