"""Who did what an event tells of: every event names one."""

from typing import NewType

DoneBy = NewType("DoneBy", str)
"""An actor as events name it: a kind and, for all but the last two kinds, an id.

`user 17`, `user 17 token at_…`, `client web1`, `cli root`, `apply root`, `anonymous`, `system`.
Never empty.
"""

CLI = DoneBy("cli")
"""An operator at the command line whose system account nobody knows."""

ANONYMOUS = DoneBy("anonymous")
"""Somebody who has not signed in, and a program that has not authenticated."""

SYSTEM = DoneBy("system")
"""The server by itself: a background job, or its start."""

UNKNOWN = DoneBy("unknown")
"""The actor of an event that was written before every event had one."""

Written = NewType("Written", str)
"""An actor as the log holds it."""

ITS_USER = Written("user")
ITS_CLIENT = Written("client")
"""The user and the client that the event names anyway: short, and left out of the index."""

_OTHERS = frozenset({"user", "cli", "apply", "owner"})


def by_user(uid: int) -> DoneBy:
    """A user who is signed in."""
    return DoneBy(f"user {uid}")


def by_token(uid: int, token_id: str) -> DoneBy:
    """A program with a token of the admin API, in the name of the user who made it."""
    return DoneBy(f"user {uid} token {token_id}")


def by_client(client_id: str) -> DoneBy:
    """A client at one of its endpoints."""
    return DoneBy(f"client {client_id}")


def by_cli(operator: str) -> DoneBy:
    """An operator at the command line; `operator` is the name of their system account."""
    return DoneBy(f"cli {operator}")


def by_apply(operator: str) -> DoneBy:
    """The same with a file of `valetkey apply`."""
    return DoneBy(f"apply {operator}")


def written(done_by: DoneBy, uid: int | None, client_id: str | None) -> Written:
    """What is written for this actor in an event of that user and that client."""
    if uid is not None and done_by == f"user {uid}":
        return ITS_USER
    if client_id is not None and done_by == f"client {client_id}":
        return ITS_CLIENT
    return Written(done_by)


def read_back(text: str, uid: int | None, client_id: str | None) -> DoneBy:
    """The actor of what was written; UNKNOWN for rows that were written without one."""
    if text == ITS_USER:
        return ANONYMOUS if uid is None else by_user(uid)
    if text == ITS_CLIENT:
        return ANONYMOUS if client_id is None else by_client(client_id)
    return DoneBy(text) if text else UNKNOWN


def is_somebody_else(done_by: DoneBy, uid: int | None) -> bool:
    """Whether an operator or another user did this to that user."""
    return done_by.partition(" ")[0] in _OTHERS and done_by != f"user {uid}"
