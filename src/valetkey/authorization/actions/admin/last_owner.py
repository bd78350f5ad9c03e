"""Refuse every change that would leave the server without an owner."""

from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused


def leave_an_owner(tx: Transaction, user: User) -> None:
    """Let `user` stop being an owner, or being at all, if another owner is there to stay.

    Of two who try this for the last two owners at once, the second is refused: call it before
    anything is written. Raises Refused (conflict).
    """
    if user.role is not Role.OWNER:
        return
    tx.people.take_turn()
    now = tx.users.find(user.uid)
    if now is None or now.role is not Role.OWNER or now.disabled_at is not None:
        return
    if not tx.people.has_owner(but=user.uid):
        raise Refused(
            Refusal(
                ErrorCode.CONFLICT,
                "this is the last owner; make another user an owner first",
                "admin.last_owner",
            )
        )
