"""Roles on the command line, and what people with one do to others there."""

from pathlib import Path

import click

from valetkey.authorization.deeds.admin.roles import Holder
from valetkey.authorization.deeds.users import sign_out_everywhere
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register import people
from valetkey.cli.register.keeper import found_user, the_same
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

    async def work(opened: Opened) -> tuple[User, bool]:
        keeper, wanted = opened.foundation.roles, None if role == "none" else Role(role)
        found = await found_user(opened, user)

        def deed(tx: Transaction) -> tuple[User, bool]:
            return found, keeper.change(tx, opened.operator, found.uid, wanted, opened.now)

        return await opened.store.write(deed)

    found, changed = with_store(options.settings_of(config), work)
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
        say.note("Nobody has a role yet. Next: valetkey owner")


@click.command("sign-out")
@click.argument("user")
@options.config_file
@options.as_json
def sign_out(user: str, config: Path | None, as_json: bool) -> None:
    """Sign somebody out everywhere; what was to end with their sessions ends.

    USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone.

    Example: valetkey user sign-out ada
    """

    async def work(opened: Opened) -> tuple[User, int]:
        found = await found_user(opened, user)

        def deed(tx: Transaction) -> tuple[User, int]:
            return found, sign_out_everywhere(tx, the_same(tx, found), opened.now)

        return await opened.store.write(deed)

    found, ended = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json({"uid": found.uid, "sessions": ended})
    else:
        say.line(
            f"{found.username} is signed out; {ended} session{'' if ended == 1 else 's'} ended"
        )


COMMANDS = (give, list_, sign_out)
