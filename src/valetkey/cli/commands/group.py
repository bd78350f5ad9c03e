"""`valetkey group`: groups of users, and who is in them."""

from valetkey.cli.operations.command import group

command = group(
    "group",
    """Create and delete groups, and say who is in them, with the servers running or stopped.

    Apps receive the names of a user's groups by the scope groups; required_groups of a client
    says who may sign in to it.

    Example: valetkey group add staff ada
    """,
)
