"""`valetkey admin-token`: tokens with which programs administer this server through its API."""

from collections.abc import Sequence
from pathlib import Path

import click

from valetkey.authorization.actions.admin import api_tokens
from valetkey.authorization.actions.admin.api_tokens import FreshToken, WantedToken
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.account.api_token import ApiToken
from valetkey.authorization.storage.administration.client_search import END
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register.keeper import done, found_user, the_same
from valetkey.cli.register.moments import shown
from valetkey.cli.register.store import Opened, with_store
from valetkey.cli.say import Exit
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret

_MOST = 1_000


@click.group()
def command() -> None:
    """Tokens of the admin API, for programs. None is worth more than its maker's role.

    Example: valetkey admin-token create --for ada --name "Nightly report" --permission read
    """


@command.command()
@click.option("--for", "maker", required=True, help="In whose name; they need a role.")
@click.option("--name", required=True, help="What it is for.")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    required=True,
    type=click.Choice([each.value for each in Permission]),
    help="What it may do, once for each.",
)
@click.option(
    "--days",
    "lasts",
    type=click.IntRange(1, 365),
    default=90,
    show_default=True,
    help="For how many days.",
)
@options.config_file
@options.as_json
def create(
    maker: str,
    name: str,
    permissions: tuple[str, ...],
    lasts: int,
    config: Path | None,
    as_json: bool,
) -> None:
    """Print a token. It is shown only now.

    Example: valetkey admin-token create --for ada --name "Nightly report" --permission read
    """

    async def work(opened: Opened) -> tuple[ApiToken, Secret]:
        random, now = opened.runtime.random, opened.now
        fresh = FreshToken(fresh_id("at", random), fresh_secret(Prefix.API_TOKEN, random))

        user = await found_user(opened, maker)

        def deed(tx: Transaction) -> ApiToken:
            wanted = WantedToken(name, permissions, days(lasts), the_same(tx, user).uid)
            key = opened.keyring.fingerprint_key
            return done(api_tokens.issue(tx, opened.operator, key, wanted, fresh, now))

        return await opened.store.write(deed), fresh.secret

    made, token = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json({**_as_json(made, made.created_at), "token": token.reveal()})
        return
    say.line(token.reveal())
    say.note(f"Good until {shown(made.expires_at)}. It is shown only now.")


@command.command("list")
@options.config_file
@options.as_json
def list_(config: Path | None, as_json: bool) -> None:
    """Every token that is remembered, newest first; none shows the token itself.

    Example: valetkey admin-token list
    """

    async def work(opened: Opened) -> tuple[Sequence[ApiToken], Instant]:
        found = await opened.store.scan(lambda tx: api_tokens.page(tx, opened.operator, END, _MOST))
        return found, opened.now

    found, now = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json([_as_json(each, now) for each in found])
    elif found:
        say.table(
            ("ID", "NAME", "UID", "PERMISSIONS", "UNTIL", "LAST USED", "STATE"),
            [
                (
                    each.id,
                    each.name,
                    str(each.uid),
                    " ".join(sorted(each.permissions)),
                    shown(each.expires_at),
                    shown(each.last_used_at),
                    "works" if each.is_live(now) else "ended",
                )
                for each in found
            ],
        )
    else:
        say.note("There are none. Next: valetkey admin-token create --help")


@command.command()
@click.argument("token_id")
@options.config_file
def end(token_id: str, config: Path | None) -> int:
    """End a token: whatever uses it stops working at once.

    Example: valetkey admin-token end at_aLK10lrmv1k2fsuxsIlNQs
    """

    async def work(opened: Opened) -> bool:
        return await opened.store.write(
            lambda tx: api_tokens.end(tx, opened.operator, token_id, opened.now)
        )

    if not with_store(options.settings_of(config), work):
        say.error("there is no such token that works; see: valetkey admin-token list")
        return Exit.FAILED
    say.line("It has ended.")
    return Exit.OK


def _as_json(token: ApiToken, now: Instant) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "uid": token.uid,
        "permissions": sorted(token.permissions),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "ended_at": token.ended_at,
        "works": token.is_live(now),
    }
