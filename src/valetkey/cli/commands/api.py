"""`valetkey api`: the APIs that access tokens are for, beside the server's own."""

from valetkey.cli.operations.command import group

command = group(
    "api",
    """Declare APIs: whoever asks for one by its identifier gets tokens for it and nothing else.

    Example: valetkey api list
    """,
)
