"""Roles on the command line, and what people with one do to others there."""

from pathlib import Path

import click

from valetkey.authorization.actions.admin.roles import Holder
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import User
from valetkey.authorization.operations.roles import GIVE_ROLE
from valetkey.authorization.operations.user_access import END_APP, SIGN_OUT
from valetkey.authorization.operations.user_records import RoleWanted, SessionsEnded
from valetkey.authorization.operations.users import DELETE_USER
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register import operations, people
from valetkey.cli.register.keeper import confirm, found_user, the_client
from valetkey.cli.register.store import Opened, with_store


@click.command("role")
@click.argument("user")
@click.argument("role", type=click.Choice([*(role.value for role in Role), "none"]))
@options.config_file
@options.as_json
def give(user: str, role: str, config: Path | None, as_json: bool) -> None:
    """Give an account a role in running this server, or take it with `none`.

    USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone. An owner may
    do everything; an administrator everything but roles; support reads, and helps people back
    into their accounts; an auditor reads.

    Example: valetkey user role ada administrator
    """
    wanted = RoleWanted(None if role == "none" else Role(role))
    found, changed = operations.on_user(options.settings_of(config), GIVE_ROLE, user, body=wanted)
    said = "no role" if role == "none" else f"the role of {role}"
    if as_json:
        say.as_json({"uid": found.uid, "role": None if role == "none" else role})
    else:
        say.line(f"{found.username} has {said}" + ("" if changed else " already"))


@click.command("roles")
@options.config_file
@options.as_json
def list_(config: Path | None, as_json: bool) -> None:
    """Who has a role in running this server.

    Example: valetkey user roles
    """

    async def work(opened: Opened) -> list[Holder]:
        return list(await opened.store.scan(opened.foundation.roles.holders))

    holders = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json([people.as_json(each.user) | {"protected": each.protected} for each in holders])
    elif holders:
        say.table(
            ("ROLE", "UID", "USERNAME", "STATE", "SECOND FACTOR"),
            [
                (
                    each.user.role.value if each.user.role else "",
                    str(each.user.uid),
                    each.user.username,
                    "on" if each.user.disabled_at is None else "off",
                    "yes" if each.protected else "no",
                )
                for each in holders
            ],
        )
    else:
        say.note("No roles assigned yet. Next: valetkey owner")


@click.command("sign-out")
@click.argument("user")
@options.config_file
@options.as_json
def sign_out(user: str, config: Path | None, as_json: bool) -> None:
    """Sign somebody out everywhere; what was to end with their sessions ends.

    USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone.

    Example: valetkey user sign-out ada
    """
    found, value = operations.on_user(options.settings_of(config), SIGN_OUT, user)
    ended = value.ended if isinstance(value, SessionsEnded) else 0
    if as_json:
        say.as_json({"uid": found.uid, "sessions": ended})
    else:
        say.line(
            f"{found.username} is signed out; {ended} session{'' if ended == 1 else 's'} ended"
        )


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

        def count(tx: Transaction) -> tuple[User, int, list[str]]:
            apps = [app.id for app in opened.foundation.removal.hindrances(tx, found)]
            return found, tx.connected.count_grants(found.uid, opened.now), apps

        return await opened.store.scan(count)

    found, grants, apps = with_store(settings, look)
    ends = f"{grants} connected app{'' if grants == 1 else 's'} will lose access"
    left = f"; without an owner then: {', '.join(apps)}" if apps else ""
    confirm(f"Delete {found.username} for good? {ends}{left}.", yes=yes)
    _, gone = operations.on_user(settings, DELETE_USER, found)
    say.line(f"{found.username} is deleted" if gone else f"{found.username} was deleted already")


@click.command("end-app")
@click.argument("user")
@click.argument("client_id")
@options.config_file
def end_app(user: str, client_id: str, config: Path | None) -> None:
    """End what one application may do for an account; it has to ask again.

    Example: valetkey user end-app ada printer
    """

    async def run(opened: Opened) -> object:
        client = await opened.store.read(lambda tx: the_client(tx, client_id))
        found = await found_user(opened, user)
        path = {"uid": str(found.uid), "client_id": client.id}
        return await operations.perform(opened, END_APP, path)

    ended = with_store(options.settings_of(config), run)
    say.line(f"{client_id} has no access any more" if ended else f"{client_id} had no access")


COMMANDS = (give, list_, sign_out, delete, end_app)
