"""`valetkey attribute`: attributes of accounts beyond the standard claims."""

from valetkey.cli.operations.command import group

command = group(
    "attribute",
    """Declare attributes of accounts, with the servers running or stopped.

    The values of a user are set by valetkey user set-attributes, or by valetkey apply.

    Example: valetkey attribute declare department --label Department
    """,
)
