"""`valetkey export`: write the stored objects as a file of `valetkey apply`."""

from pathlib import Path

import click

from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.applying.export import exported
from valetkey.cli.applying.file import MEGABYTES, NAME
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.kernel.refusal import OperatorError


@click.command()
@click.option("--users", is_flag=True, help="Also accounts, members of groups and roles of users.")
@click.option("--name", default="", metavar="NAME", help="The name of the file, to own objects.")
@options.config_file
def command(users: bool, name: str, config: Path | None) -> None:
    """Write clients, APIs, groups, roles, the brand and more as a file for apply.

    Applied to this installation, the file changes nothing. Passwords and secrets are not written:
    another installation generates new secrets, and accounts have no password there. Apps that
    registered themselves are left out.

    Example: valetkey export --name site > apply.toml
    """
    if name and NAME.fullmatch(name) is None:
        raise OperatorError("a name has up to 80 letters, digits and . _ -", "--name")

    def write(tx: Transaction) -> str:
        return "\n".join(exported(tx, name, users=users))

    async def read_export(opened: OpenedStore) -> str:
        return await opened.store.read(write)

    text = with_store(options.settings_of(config), read_export)
    if len(text.encode()) > MEGABYTES << 20:
        say.note("The file is larger than 8 MiB: divide it before you apply it.")
    click.echo(text, nl=False)
