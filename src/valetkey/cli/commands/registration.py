"""`valetkey registration`: who may register applications, and the tokens for that."""

from valetkey.cli.operations.command import group

command = group(
    "registration",
    """Let applications register themselves, by tokens that you hand out; let developers do it.

    registration.mode says whether a token is needed, or anybody may, or nobody.

    Example: valetkey registration invite --uses 1 --note "Ada's printer"
    """,
)
