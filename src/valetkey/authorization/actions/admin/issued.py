"""End what users issued to others when their role, membership or account ends."""

from valetkey.authorization.actions.admin.api_tokens import end_all_of
from valetkey.authorization.actions.registrations import withdraw
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.event.grants import TeamInvitationEnded
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


def end_issued(tx: Transaction, uid: Uid, now: Instant) -> None:
    """End every open invitation and every API token that this account issued."""
    tx = _acting(tx, uid)
    end_issued_in_role(tx, uid, now)
    for client_id, invitation_id in tx.team_invitations.end_all_by(uid):
        tx.events.add(TeamInvitationEnded(client_id, invitation_id, "inviter_left"), now)


def end_issued_in_role(tx: Transaction, uid: Uid, now: Instant) -> None:
    """End the API tokens and registration tokens that this account issued in a role."""
    tx = _acting(tx, uid)
    end_all_of(tx, uid, now)
    for invitation_id in tx.invitations.made_by(uid, now):
        withdraw(tx, invitation_id, now)


def end_issued_in_team(tx: Transaction, client_id: str, uid: Uid, now: Instant) -> None:
    """End the open invitations of this account into the team of one app."""
    tx = _acting(tx, uid)
    for invitation_id in tx.team_invitations.end_by(uid, client_id):
        tx.events.add(TeamInvitationEnded(client_id, invitation_id, "inviter_left"), now)


def _acting(tx: Transaction, uid: Uid) -> Transaction:
    """Return the transaction with an actor; without one, the user who confirmed by a link."""
    return tx if tx.done_by is not None else tx.acting(by_user(uid))
