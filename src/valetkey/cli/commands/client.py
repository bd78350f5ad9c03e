"""`valetkey client`: register, show, change and disable apps."""

from collections.abc import Sequence
from pathlib import Path

import click

from valetkey.authorization.actions.admin.clients import look
from valetkey.authorization.actions.developer.presets import PRESETS, ConfigurationFile
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.operations.client_credentials import SECRET
from valetkey.authorization.operations.client_records import (
    LocalChange,
    LocalRegistration,
    NewSecret,
    SecretWanted,
)
from valetkey.authorization.operations.clients import CHANGE, REGISTER
from valetkey.authorization.operations.operation import Operation
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, with_values
from valetkey.cli import options, say
from valetkey.cli.operations.command import group
from valetkey.cli.operations.perform import flat, perform
from valetkey.cli.register import clients
from valetkey.cli.register.clients import metadata_options, said
from valetkey.cli.register.keeper import (
    the_client,
)
from valetkey.cli.register.store import Opened, with_store
from valetkey.kernel.moment import Lifetime, parse_lifetime
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret

command = group(
    "client",
    """Register, show, change and disable applications.

    Works with the servers running or stopped; a change counts everywhere within seconds.

    Example: valetkey client create --name "Notes Printer" --redirect-uri https://app.example/cb
    """,
)


@command.command()
@click.option("--name", required=True, help="Its name, as users see it on the consent page.")
@click.option("--id", "client_id", default="", help="Its client_id; made without this.")
@click.option(
    "--preset",
    type=click.Choice(tuple(PRESETS)),
    metavar="NAME",
    help="What it is built with: sets what the other options do not, and prints its configuration.",
)
@metadata_options
@options.config_file
@options.as_json
def create(
    name: str,
    client_id: str,
    preset: str | None,
    config: Path | None,
    as_json: bool,
    **given: object,
) -> None:
    """Register an application. Its secret is generated and printed once.

    Implicit and password grants are enabled afterwards, with allow-implicit and allow-password.

    Example: valetkey client create --name "Notes Printer" --preset spring-boot --redirect-uri
    https://app.example/login/oauth2/code/valetkey
    """
    built_with = PRESETS[preset] if preset else None
    start = built_with.metadata(name) if built_with else ClientMetadata(name=name)
    values = said(given)
    metadata = with_values(start, values)
    if built_with:
        metadata = with_values(built_with.completed(metadata), values)
    settings = options.settings_of(config)
    client, secret = with_store(
        settings,
        lambda opened: _performed(opened, REGISTER, LocalRegistration(metadata, client_id)),
    )
    issuer = settings.authorization.url
    files = (
        built_with.configuration(client, client.id, issuer, secret, SYSTEM.random)
        if built_with
        else ()
    )
    headline = f"{say.strong(client.name)} is registered"
    _tell(client, secret, headline, as_json=as_json, files=files)


@command.command()
@options.as_json
def presets(as_json: bool) -> None:
    """List the presets of `valetkey client create --preset`: what an app can be built with.

    Example: valetkey client presets
    """
    if as_json:
        say.as_json(
            [
                {"preset": each.name, "label": each.label, "redirect_uri": each.redirect_uri}
                for each in PRESETS.values()
            ]
        )
        return
    rows = [(each.name, each.label, each.redirect_uri or "-") for each in PRESETS.values()]
    say.table(("PRESET", "BUILT WITH", "REDIRECT URI IN DEVELOPMENT"), rows)


@command.command()
@click.argument("client_id")
@click.option("--name", help="Its name, as users see it on the consent page.")
@metadata_options
@options.config_file
@options.as_json
def change(client_id: str, config: Path | None, as_json: bool, **given: object) -> None:
    """Change an app's registration; omitted options stay as they are.

    An option that can be repeated replaces the whole list; an empty value removes it. If the app
    now needs a secret, one is generated and printed once.

    Example: valetkey client change printer --post-logout-redirect-uri https://app.example/bye
    """

    async def change_registration(opened: Opened) -> tuple[Client, str]:
        await opened.store.read(lambda tx: the_client(tx, client_id))
        return await _performed(opened, CHANGE, LocalChange(said(given)), client_id)

    client, secret = with_store(options.settings_of(config), change_registration)
    _tell(client, secret, f"{client.id} is up to date", as_json=as_json)


async def _performed(
    opened: Opened, operation: Operation, body: object, client_id: str = ""
) -> tuple[Client, str]:
    """Register or change a client; return it, and the secret that was issued or ""."""
    arguments = {"client_id": client_id} if client_id else {}
    made = flat(await perform(opened, operation, arguments, body))
    client = await opened.store.read(lambda tx: the_client(tx, str(made["client_id"])))
    return client, str(made["client_secret"] or "")


def _tell(
    client: Client,
    secret: str,
    headline: str,
    *,
    as_json: bool,
    files: Sequence[ConfigurationFile] = (),
) -> None:
    if as_json:
        told: dict[str, object] = {"client_secret": secret} if secret else {}
        if files:
            told["configuration"] = {file.name: file.text for file in files}
        say.as_json({**clients.as_json(client), **told})
        return
    say.line(headline)
    say.fields([("client_id", client.id), *([("client_secret", secret)] if secret else [])])
    if secret:
        say.note("The secret is shown only now.")
    for file in files:
        say.line(f"\n{say.strong(file.name)}\n{file.text}")


@command.command()
@click.argument("client_id")
@options.config_file
@options.as_json
def show(client_id: str, config: Path | None, as_json: bool) -> None:
    """Show everything about one app except its secrets, and the risks of its settings.

    Example: valetkey client show printer
    """

    async def look_up(opened: Opened) -> clients.ClientDetails:
        await opened.store.read(lambda tx: the_client(tx, client_id))
        held = await opened.store.scan(lambda tx: look(tx, opened.operator, client_id, opened.now))
        return clients.ClientDetails(held, opened.now)

    shown = with_store(options.settings_of(config), look_up)
    if as_json:
        say.as_json(shown.as_json())
        return
    say.line(say.strong(shown.held.client.name))
    say.fields(shown.pairs())
    for cost in clients.costs(shown.held.client):
        say.line(f"{say.coloured('!', 'yellow')} {cost}")


@command.command()
@click.argument("client_id", default="")
@click.option("--generate", is_flag=True, help="Only print a good secret, for a file of yours.")
@click.option(
    "--others-live",
    default="1d",
    show_default=True,
    help='How long existing secrets keep working, or "0" to end them now.',
)
@options.config_file
@options.as_json
def secret(
    client_id: str, generate: bool, others_live: str, config: Path | None, as_json: bool
) -> None:
    """Give an application another secret, printed once. The others end after a day.

    Example: valetkey client secret printer --others-live 0
    """
    if generate == bool(client_id):
        raise Mistake("name a client, or use --generate to print a secret for a client to come")
    if generate:
        made = fresh_secret(Prefix.CLIENT_SECRET, SYSTEM.random)
        say.as_json({"client_secret": made.reveal()}) if as_json else say.line(made.reveal())
        return
    live = Lifetime(0) if others_live == "0" else parse_lifetime(others_live)

    async def issue_secret(opened: Opened) -> str:
        client = await opened.store.read(lambda tx: the_client(tx, client_id))
        wanted = SecretWanted(others_live=live)
        value = await perform(opened, SECRET, {"client_id": client.id}, wanted)
        return value.client_secret if isinstance(value, NewSecret) else ""

    issued = with_store(options.settings_of(config), issue_secret)
    if as_json:
        say.as_json({"client_id": client_id, "client_secret": issued})
        return
    say.line(f"client_secret: {issued}")
    ends = f"end in {others_live}" if live else "have ended"
    say.note(f"The secret is shown only now. The others {ends}.")
