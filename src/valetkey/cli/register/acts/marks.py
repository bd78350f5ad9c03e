"""What an operator says of an application as a whole: that it is verified, and that it is gone."""

from pathlib import Path

import click

from valetkey.authorization.deeds.admin.clients import ClientDesk, Held
from valetkey.authorization.deeds.admin.clients import look as held
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register.keeper import confirm, registrar, the_client
from valetkey.cli.register.store import Opened, with_store


@click.command()
@click.argument("client_id")
@click.option("--off", is_flag=True, help="Take the mark away instead.")
@options.config_file
def verify(client_id: str, off: bool, config: Path | None) -> None:
    """Let people read that you know who is behind an application.

    The mark goes away when somebody else changes its name, its logo or where it sends people.

    Example: valetkey client verify printer
    """

    async def work(opened: Opened) -> bool:
        desk, by = ClientDesk(registrar(opened)), opened.operator

        def deed(tx: Transaction) -> bool:
            return desk.verify(tx, by, the_client(tx, client_id).id, on=not off, now=opened.now)

        return await opened.store.write(deed)

    changed = with_store(options.settings_of(config), work)
    state = "not verified" if off else "verified"
    say.line(f"{client_id} is {state}" if changed else f"{client_id} was {state} already")


@click.command()
@click.argument("client_id")
@options.yes
@options.config_file
def delete(client_id: str, yes: bool, config: Path | None) -> None:
    """Delete an application and everything it holds; its id is never given again.

    Example: valetkey client delete printer
    """
    settings = options.settings_of(config)

    async def look(opened: Opened) -> Held:
        return await opened.store.scan(lambda tx: held(tx, opened.operator, client_id, opened.now))

    async def work(opened: Opened) -> None:
        desk = ClientDesk(registrar(opened))
        await opened.store.write(lambda tx: desk.delete(tx, opened.operator, client_id, opened.now))

    found = with_store(settings, look)
    people = f"{found.people} {'person' if found.people == 1 else 'people'}"
    confirm(f"Delete {found.client.name}? It stops working for {people}.", yes=yes)
    with_store(settings, work)
    say.line(f"{client_id} is deleted")
