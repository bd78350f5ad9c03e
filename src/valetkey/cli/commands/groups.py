"""The groups whose commands derive from the operations of administration, and their help."""

import click

from valetkey.cli.operations.command import group
from valetkey.cli.register.inviting import invite

_HELP = {
    "api": """
    Declare APIs: whoever asks for one by its identifier gets tokens for it and nothing else.

    Example: valetkey api list
    """,
    "registration": """
    Let applications register themselves, by tokens that you hand out; let developers do it.

    registration.mode says whether a token is needed, or anybody may, or nobody.

    Example: valetkey registration invite --uses 1 --note "Ada's printer"
    """,
    "user": """
    Create, show, change and delete accounts, invite users, with the servers running or stopped.

    Example: valetkey user create ada --email ada@example.com --name "Ada Lovelace"
    """,
    "group": """
    Create and delete groups, and say who is in them, with the servers running or stopped.

    Apps receive the names of a user's groups by the scope groups; required_groups of a client
    says who may sign in to it.

    Example: valetkey group add staff ada
    """,
    "webhook": """
    Send chosen events to other servers, with the servers running or stopped.

    Receivers check the signature, as https://www.standardwebhooks.com describes.

    Example: valetkey webhook create https://example.com/hook --event user.disabled
    """,
    "attribute": """
    Declare attributes of accounts, with the servers running or stopped.

    The values of a user are set by valetkey user set-attributes, or by valetkey apply.

    Example: valetkey attribute declare department --label Department
    """,
    "admin-token": """
    Tokens of the admin API, for programs. None allows more than the role of its user.

    Example: valetkey admin-token create --for ada --name "Nightly report" --permission read
    """,
    "scim": """
    Credentials with which a directory such as Okta or Entra ID creates, changes and disables
    users, and keeps groups, at /scim/v2. It never changes a user who has a role.

    Example: valetkey scim create Okta
    """,
}


def group_of(name: str) -> click.Group:
    """Return the group with its derived commands."""
    return group(name, _HELP[name], *((invite,) if name == "user" else ()))
