"""`valetkey claims`: claims of tokens beyond the standard ones."""

from pathlib import Path

import click
import msgspec

from valetkey.authorization.operations.claims import PREVIEW
from valetkey.cli import options, say
from valetkey.cli.operations.command import group
from valetkey.cli.operations.perform import flat, perform
from valetkey.cli.register.services import chosen_user
from valetkey.cli.register.store import OpenedStore, with_store


@click.command()
@click.option(
    "--user",
    required=True,
    help="uid:NUMBER, name:USERNAME or email:ADDRESS; the prefix may be left out.",
)
@click.option("--client", required=True, metavar="CLIENT_ID", help="The id of the app.")
@click.option(
    "--api",
    default="",
    metavar="IDENTIFIER",
    help="The identifier of an API; the server's own by default.",
)
@click.option(
    "--scope", default="", help="Separated by spaces; by default, all that the app may have."
)
@options.config_file
@options.as_json
def preview(
    user: str, client: str, api: str, scope: str, config: Path | None, as_json: bool
) -> None:
    """Show what the tokens of a user for an app would contain now.

    Nothing is issued. Identifiers and times that differ in each token are examples.

    Example: valetkey claims preview --user ada --client grafana
    """
    settings = options.settings_of(config)
    query = {name: text for name, text in (("api", api), ("scope", scope)) if text}

    async def preview_claims(opened: OpenedStore) -> object:
        uid = (await chosen_user(opened, user)).uid
        arguments = {"uid": str(uid), "client_id": client}
        return await perform(opened, PREVIEW, arguments, query=query)

    told = flat(with_store(settings, preview_claims))
    if as_json:
        say.as_json(told)
        return
    say.fields([("scope", str(told["scope"])), ("api", str(told["api"]))])
    for name in ("access_token", "id_token", "userinfo"):
        if told[name] is not None:
            say.line()
            say.line(say.strong(name))
            say.line(msgspec.json.format(msgspec.json.encode(told[name]), indent=2).decode())


command = group(
    "claims",
    """Declare claims of tokens, and preview them, with the servers running or stopped.

    Example: valetkey claims declare department --from attribute:department --in id_token
    """,
    preview,
)
