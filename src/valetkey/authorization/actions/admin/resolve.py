"""Find users by `uid:1002`, `name:ada`, `email:ada@example.com` or a word without prefix."""

from collections.abc import Sequence

from valetkey.authorization.model.account.user import LARGEST_UID, Uid, User
from valetkey.authorization.storage.transaction import Transaction

_LONGEST = 320


def resolve_users(tx: Transaction, text: str) -> Sequence[User]:
    """Every user that this text can mean, without those who are deleted; several are ambiguous.

    A bare word can be a username, an email address or a uid.
    """
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        return ()
    found: tuple[User | None, ...]
    kind, _, rest = text.partition(":")
    match kind if rest else "":
        case "uid":
            found = (_by_uid(tx, rest),)
        case "name":
            found = (tx.users.find_by_username(rest),)
        case "email":
            found = (tx.users.find_by_email(rest),)
        case _:
            found = (
                tx.users.find_by_username(text),
                tx.users.find_by_email(text),
                _by_uid(tx, text),
            )
    each = {user.uid: user for user in found if user is not None}
    return [user for uid, user in each.items() if not tx.account_removals.is_done(uid)]


def summary(user: User) -> str:
    """Return uid, username, email address and name, for telling users apart."""
    name = f', "{user.name}"' if user.name else ""
    return f"uid:{user.uid} name:{user.username} email:{user.email}{name}"


def _by_uid(tx: Transaction, text: str) -> User | None:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(LARGEST_UID)):
        return None
    return tx.users.find(Uid(int(text))) if 0 < int(text) <= LARGEST_UID else None
