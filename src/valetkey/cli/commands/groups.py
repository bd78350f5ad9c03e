"""Command groups derived from the operations of administration, and their help."""

from importlib import import_module
from pathlib import Path

import click

from valetkey.authorization.features import FEATURES
from valetkey.authorization.model.user import is_mailable
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.operations.command import group
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.config.sections.people import SignUpMode
from valetkey.kernel.refusal import OperatorError


@click.command()
@click.argument("email")
@click.option(
    "--language", default="en", metavar="TAG", help="The language of the email, such as de."
)
@options.config_file
@options.as_json
def invite(email: str, language: str, config: Path | None, as_json: bool) -> None:
    """Invite the owner of an email address to create an account within a week.

    The link is emailed to EMAIL; if mail is off, send it yourself. It works once, and only while
    `accounts.sign_up` is "invitation" or "open".

    Example: valetkey user invite grace@example.com
    """
    email = email.strip()
    if not is_mailable(email):
        raise OperatorError(
            f"email cannot be delivered to {email!r}: enter an address such as grace@example.com"
        )

    async def invite_user(opened: OpenedStore) -> tuple[str, bool]:
        if opened.settings.accounts.sign_up is SignUpMode.OFF:
            raise OperatorError(
                'it is "off": accounts cannot be created; next: '
                "valetkey settings set accounts.sign_up invitation",
                "accounts.sign_up",
            )
        invitations = opened.foundation.people_invitations
        link = invitations.links.fresh()

        def invite(tx: Transaction) -> str:
            return invitations.invite(tx, email, link, language, opened.now)

        return await opened.store.write(invite), opened.settings.mail.is_on

    url, is_sent = with_store(options.settings_of(config), invite_user)
    if not url:
        raise OperatorError("this address already has an account")
    if as_json:
        say.as_json({"email": email, "link": url, "mailed": is_sent})
        return
    if is_sent:
        say.line(f"An email was sent to {email}. If it does not arrive, send this link:")
    else:
        say.line(f"Mail is off: pass this link on to {email}. It works once, for a week.")
    say.line(url)


_HELP = {
    "api": """
    Declare APIs. Apps that request one by its identifier get tokens that only it accepts.

    Example: valetkey api list
    """,
    "registration": """
    Control which applications may register themselves, and which users may register apps.

    `registration.mode` is off, token (apps with a registration token) or open (any app).

    Example: valetkey registration invite --uses 1 --note "Ada's printer"
    """,
    "user": """
    Create, show, change and delete accounts, and invite users. Servers may be running.

    Example: valetkey user create ada --email ada@example.com --name "Ada Lovelace"
    """,
    "group": """
    Manage groups and their members, with the servers running or stopped.

    Apps receive the names of a user's groups by the scope groups; required_groups of a client
    says who may sign in to it.

    Example: valetkey group add staff ada
    """,
    "settings": """
    List settings, and change those that can change while the servers run.

    The order is: default, value set here or in the console, configuration file, environment; the
    last one wins. reset undoes what was set here or in the console.

    Example: valetkey settings set tokens.access_token_lifetime 30m
    """,
    "admin-token": """
    Manage tokens of the admin API, for programs. None allows more than the role of its user.

    Example: valetkey admin-token create --for ada --name "Nightly report" --permission read
    """,
    **{group.name: group.help for feature in FEATURES for group in feature.commands},
}


def group_of(name: str) -> click.Group:
    """Return the group with its derived commands, and those that are written by hand."""
    others = [invite] if name == "user" else list[click.Command]()
    for feature in FEATURES:
        if any(path.partition(" ")[0] == name for path in feature.handwritten):
            module = import_module(f"valetkey.authorization.{feature.name}.commands")
            others += module.COMMANDS[name]
    return group(name, _HELP[name], *others)
