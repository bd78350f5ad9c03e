"""The numbers of advisory locks that are not a user's: every process uses the same."""

from enum import UNIQUE, StrEnum, verify


@verify(UNIQUE)
class Lock(StrEnum):
    """What `Connection.share` and `Connection.exclude` are given for each lock.

    A user's number is the uid, which is positive. Servers of two versions may run at the same time,
    so a number is never given another meaning.
    """

    REGISTER = "SELECT -1"
    """The register of clients, shared by transactions that judge a client."""
    ENDINGS = "SELECT -2"
    """The endings that the background continues."""
    SCIM = "SELECT -3"
    """SCIM credentials, shared by transactions that use one."""
    WEBHOOKS = "SELECT -4"
    """Webhooks, while they are created and changed."""
    AUDIT_CHAIN = "SELECT -5"
    """The end of the audit log's chain."""
    RETRIES = "SELECT -6"
    """Transactions that are repeated after a deadlock, one after the other."""
    USER_IMPORTS = "SELECT -7"
    """The number of unfinished imports of users, while one begins."""
