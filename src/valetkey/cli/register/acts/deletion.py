"""`valetkey user delete`: an account goes, at once and for good."""

from pathlib import Path

import click

from valetkey.authorization.model.account.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register.keeper import confirm, found_user, the_same
from valetkey.cli.register.store import Opened, with_store


@click.command()
@click.argument("user")
@options.yes
@options.config_file
def delete(user: str, yes: bool, config: Path | None) -> None:
    """Delete an account at once and for good, with all that is known of its person.

    USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone. Its number is
    never given again; its names can be taken by others. Apps that nobody else owns stay,
    without an owner.

    Example: valetkey user delete ada
    """
    settings = options.settings_of(config)

    async def look(opened: Opened) -> tuple[User, int, list[str]]:
        found = await found_user(opened, user)

        def work(tx: Transaction) -> tuple[User, int, list[str]]:
            apps = [app.id for app in opened.foundation.removal.hindrances(tx, found)]
            return found, tx.connected.count_grants(found.uid, opened.now), apps

        return await opened.store.scan(work)

    async def work(opened: Opened) -> bool:
        removal = opened.foundation.removal

        def deed(tx: Transaction) -> bool:
            return removal.remove(tx, the_same(tx, found), opened.now)

        return await opened.store.write(deed)

    found, grants, apps = with_store(settings, look)
    ends = f"{grants} connected app{'' if grants == 1 else 's'} will lose access"
    left = f"; without an owner then: {', '.join(apps)}" if apps else ""
    confirm(f"Delete {found.username} for good? {ends}{left}.", yes=yes)
    gone = with_store(settings, work)
    say.line(f"{found.username} is deleted" if gone else f"{found.username} was deleted already")
