"""`valetkey user`: accounts and roles."""

from valetkey.cli.operations.command import group
from valetkey.cli.register.inviting import invite

command = group(
    "user",
    """Create, show, change and delete accounts, invite users, with the servers running or stopped.

    Example: valetkey user create ada --email ada@example.com --name "Ada Lovelace"
    """,
    invite,
)
