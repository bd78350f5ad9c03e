"""`valetkey user`: make, show and change accounts, set passwords, switch accounts off and on."""

from pathlib import Path

import click

from valetkey.authorization.actions.users import UserRecord, changed_names
from valetkey.authorization.model.account.claims import StandardClaims
from valetkey.authorization.model.account.user import User
from valetkey.authorization.operations.user_access import RESET_FACTORS
from valetkey.authorization.operations.users import DISABLE_USER, ENABLE_USER
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register import operations, passwords, people, roles
from valetkey.cli.register.inviting import invite
from valetkey.cli.register.keeper import (
    account_keeper,
    confirm,
    done,
    every_user,
    found_user,
    refused,
    the_same,
    the_user,
)
from valetkey.cli.register.moments import shown
from valetkey.cli.register.store import Opened, with_store

_from_stdin = click.option(
    "--password-stdin", "from_stdin", is_flag=True, help="Read the password from standard input."
)
_generate = click.option(
    "--generate-password", "generate", is_flag=True, help="Make a password and print it once."
)


@click.group()
def command() -> None:
    """Make, show, change and delete accounts, invite people, with the servers running or stopped.

    Example: valetkey user create ada --email ada@example.com --name "Ada Lovelace"
    """


for _more in (invite, *roles.COMMANDS):
    command.add_command(_more)


@command.command()
@click.argument("username")
@click.option("--email", required=True, help="Signs in as well as the username does.")
@click.option("--name", default="", help="How the person is called.")
@click.option("--uid", type=int, help="The number that identifies the person; random without it.")
@people.claim_options
@_from_stdin
@_generate
@options.config_file
@options.as_json
def create(
    username: str,
    email: str,
    name: str,
    uid: int | None,
    from_stdin: bool,
    generate: bool,
    config: Path | None,
    as_json: bool,
    **said: object,
) -> None:
    """Make an account. The password is asked for, read from a pipe, or made and printed once.

    Example: valetkey user create ada --email ada@example.com --generate-password
    """
    settings = options.settings_of(config)
    claims = people.claims_said(said, StandardClaims.NOTHING)
    record = UserRecord(username, email, name, claims=claims)
    if faults := record.faults():
        raise refused(faults)
    password = passwords.obtain(from_stdin=from_stdin, generate=generate)

    async def work(opened: Opened) -> User:
        keeper, data = account_keeper(opened), passwords.hashed(opened, password)

        def deed(tx: Transaction) -> User:
            made = keeper.register(tx, record, opened.now, uid=uid, password_hash=data)
            return done(made)

        return await opened.store.write(deed)

    user = with_store(settings, work)
    shown_once = password.reveal() if generate else None
    if as_json:
        made = {"password": shown_once} if shown_once else {}
        say.as_json({**people.as_json(user), **made})
        return
    say.line(f"{say.strong(user.username)} has an account; uid {user.uid}")
    if shown_once:
        say.line(f"password: {shown_once}")
        say.note("The password is shown only now.")


@command.command("list")
@options.config_file
@options.as_json
def list_(config: Path | None, as_json: bool) -> None:
    """Every account.

    Example: valetkey user list --json
    """

    async def work(opened: Opened) -> list[User]:
        return list(await opened.store.scan(every_user))

    users = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json([people.as_json(user) for user in users])
    elif users:
        say.table(
            ("UID", "USERNAME", "E-MAIL", "NAME", "STATE", "SINCE"),
            [
                (
                    str(user.uid),
                    user.username,
                    user.email,
                    user.name,
                    _state(user),
                    shown(user.created_at),
                )
                for user in users
            ],
        )
    else:
        say.note("There are no accounts yet. Next: valetkey user create --help")


@command.command()
@click.argument("user")
@options.config_file
@options.as_json
def show(user: str, config: Path | None, as_json: bool) -> None:
    """Everything that an account says about its person.

    USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone.

    Example: valetkey user show ada
    """

    async def work(opened: Opened) -> User:
        return await opened.store.read(lambda tx: the_user(tx, user))

    found = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json(people.as_json(found))
        return
    say.line(say.strong(found.name or found.username))
    say.fields(people.pairs(found))


@command.command()
@click.argument("user")
@click.option("--username", metavar="TEXT", help="Another name to sign in with.")
@click.option("--email", metavar="TEXT", help="Another e-mail address.")
@click.option("--name", metavar="TEXT", help="How the person is called.")
@click.option(
    "--email-verified/--email-unverified",
    default=None,
    help="Whether the address was proved to be theirs.",
)
@people.claim_options
@options.config_file
@options.as_json
def change(
    user: str,
    username: str | None,
    email: str | None,
    name: str | None,
    email_verified: bool | None,
    config: Path | None,
    as_json: bool,
    **said: object,
) -> None:
    """Change what an account says about its person; what is not named stays.

    An empty text takes away what was said.

    Example: valetkey user change ada --given-name Ada --phone-number +442079460000
    """

    async def work(opened: Opened) -> tuple[User, User]:
        keeper, meant = account_keeper(opened), await found_user(opened, user)

        def deed(tx: Transaction) -> tuple[User, User]:
            found = the_same(tx, meant)
            verified = found.email_verified_at is not None
            record = UserRecord(
                found.username if username is None else username,
                found.email if email is None else email,
                found.name if name is None else name,
                verified if email_verified is None else email_verified,
                people.claims_said(said, found.claims),
            )
            return found, done(keeper.change(tx, found, record, opened.now))

        return await opened.store.write(deed)

    before, after = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json(people.as_json(after))
    elif names := changed_names(before, after):
        say.line(f"{after.username} has another {', '.join(names)}")
    else:
        say.line(f"{after.username} was like that already")


@command.command()
@click.argument("user")
@options.yes
@options.config_file
def disable(user: str, yes: bool, config: Path | None) -> None:
    """Switch an account off: its sessions and everything it allowed end within seconds.

    USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone.

    Example: valetkey user disable ada
    """
    settings = options.settings_of(config)

    async def look(opened: Opened) -> tuple[User, int]:
        found = await found_user(opened, user)
        return found, await opened.store.scan(
            lambda tx: tx.connected.count_grants(found.uid, opened.now)
        )

    found, grants = with_store(settings, look)
    ends = f"{grants} connected app{'' if grants == 1 else 's'} will lose access"
    confirm(f"Switch {found.username} off? {ends}.", yes=yes)
    _, changed = operations.on_user(settings, DISABLE_USER, found)
    lost = ends.replace("will lose", "lost")
    say.line(f"{found.username} is off; {lost}" if changed else f"{found.username} was off already")


@command.command("reset-factors")
@click.argument("user")
@options.yes
@options.config_file
def take_factors(user: str, yes: bool, config: Path | None) -> None:
    """Take passkeys, authenticator app and recovery codes from an account.

    For somebody who lost their devices. Their password lets them in again; it is worth asking
    twice who is asking. USER is uid:NUMBER, name:USERNAME, email:ADDRESS, or one of these alone.

    Example: valetkey user reset-factors ada
    """
    settings = options.settings_of(config)

    async def look(opened: Opened) -> User:
        return await found_user(opened, user)

    found = with_store(settings, look)
    name = found.username
    question = f"Take all second factors from {name}? Then the password alone opens the account."
    confirm(question, yes=yes)
    _, changed = operations.on_user(settings, RESET_FACTORS, found)
    gone = f"{name} has no second factor any more, and is signed out everywhere"
    say.line(gone if changed else f"{name} had no second factor")


@command.command()
@click.argument("user")
@options.config_file
def enable(user: str, config: Path | None) -> None:
    """Switch an account on again. What had ended stays ended.

    Example: valetkey user enable ada
    """
    found, changed = operations.on_user(options.settings_of(config), ENABLE_USER, user)
    say.line(f"{found.username} is on" if changed else f"{found.username} was on already")


@command.command()
@click.argument("user")
@_from_stdin
@_generate
@options.config_file
def password(user: str, from_stdin: bool, generate: bool, config: Path | None) -> None:
    """Set an account's password; its sessions and everything it allowed end.

    Example: valetkey user password ada --generate-password
    """
    settings = options.settings_of(config)
    chosen = passwords.obtain(from_stdin=from_stdin, generate=generate)

    async def work(opened: Opened) -> User:
        keeper, meant = account_keeper(opened), await found_user(opened, user)
        data = passwords.hashed(opened, chosen)

        def deed(tx: Transaction) -> User:
            found = the_same(tx, meant)
            keeper.set_password(tx, found, data, opened.now)
            return found

        return await opened.store.write(deed)

    found = with_store(settings, work)
    say.line(f"{found.username} has another password, and is signed out everywhere")
    if generate:
        say.line(f"password: {chosen.reveal()}")
        say.note("The password is shown only now.")


def _state(user: User) -> str:
    return "on" if user.disabled_at is None else "off"
