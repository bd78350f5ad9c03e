"""`valetkey admin-token`: tokens with which programs administer this server through its API."""

from valetkey.cli.operations.command import group

command = group(
    "admin-token",
    """Tokens of the admin API, for programs. None allows more than the role of its user.

    Example: valetkey admin-token create --for ada --name "Nightly report" --permission read
    """,
)
