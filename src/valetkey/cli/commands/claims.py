"""`valetkey claims`: what tokens say beyond the standard claims."""

from valetkey.cli.operations.command import group

command = group(
    "claims",
    """Declare claims of tokens, and preview them, with the servers running or stopped.

    Example: valetkey claims declare department --from attribute:department --in id_token
    """,
)
