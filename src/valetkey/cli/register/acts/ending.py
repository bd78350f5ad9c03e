"""`valetkey user end-app`: one application has no access to an account any more."""

from pathlib import Path

import click

from valetkey.authorization.deeds.admin.people import PeopleDesk
from valetkey.authorization.email.links import Links
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register.keeper import found_user, the_client, the_same
from valetkey.cli.register.store import Opened, with_store


def _desk(opened: Opened) -> PeopleDesk:
    it = opened.foundation
    links = Links(it.issuer, it.keyring, it.runtime.random)
    return PeopleDesk(it.accounts(), it.removal, links)


@click.command("end-app")
@click.argument("user")
@click.argument("client_id")
@options.config_file
def end_app(user: str, client_id: str, config: Path | None) -> None:
    """End what one application may do for an account; it has to ask again.

    Example: valetkey user end-app ada printer
    """

    async def work(opened: Opened) -> bool:
        desk, by = _desk(opened), opened.operator
        found = await found_user(opened, user)

        def deed(tx: Transaction) -> bool:
            held, client = the_same(tx, found), the_client(tx, client_id)
            return desk.end_app(tx, by, held.uid, client.id, opened.now)

        return await opened.store.write(deed)

    ended = with_store(options.settings_of(config), work)
    say.line(f"{client_id} has no access any more" if ended else f"{client_id} had no access")
