"""The revision numbers with which caches check whether they are current.

`Engine.changed` tells every process of each change of table `revision` within a second.

`revision` is increased by every change of clients, keys, brand and groups. It is also the first
lock of a transaction (docs/decisions/0015): the register, then users by uid, then rows. A
transaction that issues something shares `Lock.REGISTER` with `revision`.
"""

from collections.abc import Callable

from valetkey.authorization.model.user import Uid
from valetkey.database.engine import Connection, Lock, ReplicaBehind
from valetkey.database.identity import CHANGE_TOKEN_STATE

_NUMBER = "SELECT number FROM revision WHERE name = 'directory'"
_TOKEN_STATE = "SELECT number FROM token_state WHERE id = 1"


def revision(db: Connection) -> int:
    """Return the number as this transaction sees it."""
    row = db.once(_NUMBER)
    return 0 if row is None else int(row[0])


def is_revision(db: Connection, number: int) -> bool:
    """Return whether this is the revision; like `Connection.assume`, mostly without waiting."""
    return db.assume(_NUMBER, number)


def touch(db: Connection) -> None:
    """Make every cache reload; other changes wait for this transaction.

    Call it before any row is locked. Tokens are issued meanwhile.
    """
    # Shared: a transaction that holds all waits here, and then finds the row unlocked.
    db.share(Lock.REGISTER)
    db.send("UPDATE revision SET number = number + 1 WHERE name = 'directory'")


def change_memberships(db: Connection, uid: Uid, random: Callable[[int], bytes]) -> None:
    """Make every process read the groups and roles of one user again.

    The user is held alone. What changes a group calls `touch` instead.
    """
    # Not one more: what was read in a transaction that is undone would be taken for the next.
    number = int.from_bytes(random(8)) >> 1
    db.send("UPDATE users SET membership_number = :number WHERE uid = :uid", uid=uid, number=number)


def token_state(db: Connection) -> int:
    """Return the number that every event which `affects_tokens` increases."""
    row = db.row(_TOKEN_STATE)
    return 0 if row is None else int(row[0])


def require_token_state(db: Connection, number: int) -> None:
    """Raise `ReplicaBehind` unless `token_state` is `number` in the snapshot of this read.

    Call it before anything else is read: caches must not take what another history has.
    """
    row = db.once(_TOKEN_STATE)
    if row is None or row[0] != number:
        raise ReplicaBehind


def change_token_state(db: Connection) -> None:
    """Make every cache of answers about tokens ask the database again."""
    db.at_commit(CHANGE_TOKEN_STATE)


def hold_all(db: Connection) -> None:
    """Block issuing of tokens and other changes until this transaction ends.

    For changes of what a client is judged by. Call it before `touch`: two transactions that first
    share the number and then lock it exclusively would deadlock.
    """
    db.exclude(Lock.REGISTER)
