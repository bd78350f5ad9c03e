"""`valetkey webhook`: where chosen events are sent."""

from valetkey.cli.operations.command import group

command = group(
    "webhook",
    """Send chosen events to other servers, with the servers running or stopped.

    Receivers check the signature, as https://www.standardwebhooks.com describes.

    Example: valetkey webhook create https://example.com/hook --event user.disabled
    """,
)
