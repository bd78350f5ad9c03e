"""`valetkey api`: APIs other than the server's own."""

from valetkey.cli.operations.command import group

command = group(
    "api",
    """Declare APIs: whoever asks for one by its identifier gets tokens for it and nothing else.

    Example: valetkey api list
    """,
)
