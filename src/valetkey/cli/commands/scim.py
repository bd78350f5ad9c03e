"""`valetkey scim`: credentials of directories that provision users and groups."""

from valetkey.cli.operations.command import group

command = group(
    "scim",
    """Credentials with which a directory such as Okta or Entra ID creates, changes and disables
    users, and keeps groups, at /scim/v2. It never changes a user who has a role.

    Example: valetkey scim create Okta
    """,
)
