"""`valetkey registration`: who may let applications register themselves, and what came of it."""

from pathlib import Path

import click

from valetkey.authorization.actions.admin import registration
from valetkey.authorization.actions.admin.registration import (
    MOST_USES,
    FreshInvitation,
    WantedInvitation,
)
from valetkey.authorization.operations.clients import ADOPT
from valetkey.authorization.operations.roles import ADMIT_DEVELOPER, DISMISS_DEVELOPER
from valetkey.authorization.storage.register.invitations import Invitation
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register import operations
from valetkey.cli.register.keeper import done
from valetkey.cli.register.moments import shown
from valetkey.cli.register.store import Opened, with_store
from valetkey.config.sections.portal import Registrants
from valetkey.config.settings import RegistrationMode, Settings
from valetkey.kernel.moment import days
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.secret import Secret

_MOST_DAYS = 3_650


@click.group()
def command() -> None:
    """Let applications register themselves, by tokens that you hand out; let developers do it.

    registration.mode says whether a token is needed, or anybody may, or nobody.

    Example: valetkey registration invite --uses 1 --note "Ada's printer"
    """


@command.command()
@click.option(
    "--uses",
    type=click.IntRange(1, MOST_USES),
    default=1,
    show_default=True,
    help="How many applications it registers.",
)
@click.option(
    "--days",
    "lasts",
    type=click.IntRange(1, _MOST_DAYS),
    default=7,
    show_default=True,
    help="For how many days.",
)
@click.option("--note", default="", help="A note to identify the invitation.")
@options.config_file
@options.as_json
def invite(uses: int, lasts: int, note: str, config: Path | None, as_json: bool) -> None:
    """Print a token with which an application can register itself. It is shown only now.

    Example: valetkey registration invite --uses 20 --days 30 --note "The printing team"
    """
    settings = options.settings_of(config)

    async def work(opened: Opened) -> tuple[Invitation, Secret]:
        fresh, key = FreshInvitation.draw(opened.runtime.random), opened.keyring.fingerprint_key
        wanted = WantedInvitation(note, uses, days(lasts))

        def issue(tx: Transaction) -> Invitation:
            return done(registration.invite(tx, opened.operator, key, wanted, fresh, opened.now))

        return await opened.store.write(issue), fresh.token

    made, token = with_store(settings, work)
    _warn(settings)
    if as_json:
        say.as_json({**_as_json(made), "initial_access_token": token.reveal()})
        return
    say.line(token.reveal())
    times = "once" if uses == 1 else f"{uses} times"
    say.note(f"Good {times}, until {shown(made.expires_at)}. It is shown only now.")


@command.command("list")
@options.config_file
@options.as_json
def list_(config: Path | None, as_json: bool) -> None:
    """The tokens that can still be used; never the tokens themselves.

    Example: valetkey registration list
    """

    async def work(opened: Opened) -> list[Invitation]:
        return list(await opened.store.scan(lambda tx: tx.invitations.live(opened.now)))

    found = with_store(options.settings_of(config), work)
    if as_json:
        say.as_json([_as_json(invitation) for invitation in found])
    elif found:
        rows = [(each.id, str(each.uses_left), shown(each.expires_at), each.note) for each in found]
        say.table(("ID", "USES LEFT", "UNTIL", "NOTE"), rows)
    else:
        say.note("There are no tokens. Next: valetkey registration invite --help")


@command.command()
@click.argument("invitation_id")
@options.config_file
def withdraw(invitation_id: str, config: Path | None) -> None:
    """Take a token back. What was registered with it stays.

    Example: valetkey registration withdraw in_3q2-7wEjRWeJ1xDVZnQ0tA
    """

    async def work(opened: Opened) -> bool:
        return await opened.store.write(
            lambda tx: registration.withdraw(tx, opened.operator, invitation_id, opened.now)
        )

    if not with_store(options.settings_of(config), work):
        raise Mistake(f"there is no token {invitation_id!r}; see: valetkey registration list")
    say.line(f"{invitation_id} is withdrawn")


@command.command()
@click.argument("client_id")
@options.config_file
def adopt(client_id: str, config: Path | None) -> None:
    """Make an application that registered itself one of your own.

    People are no longer told that nobody has checked it, it never ends for want of use, and it no
    longer changes its own registration: you do, or the owners that you give it.

    Example: valetkey registration adopt client_3q2-7wEjRWeJ1xDVZnQ0tA
    """
    _, adopted = operations.on_client(options.settings_of(config), ADOPT, client_id)
    say.line(f"{client_id} is your own" if adopted else f"{client_id} was your own already")


@command.command()
@click.argument("user")
@click.option("--off", is_flag=True, help="Take it back; the apps they have stay theirs.")
@options.config_file
def developer(user: str, off: bool, config: Path | None) -> None:
    """Let somebody register applications in the developer portal.

    It counts where portal.who is "invited".

    Example: valetkey registration developer ada
    """
    settings = options.settings_of(config)
    operation = DISMISS_DEVELOPER if off else ADMIT_DEVELOPER
    _, changed = operations.on_user(settings, operation, user)
    may = "may not register applications" if off else "may register applications"
    say.line(f"{user} {may}" if changed else f"{user} {may}; nothing changed")
    if settings.portal.who != Registrants.INVITED:
        say.note(f'It counts for nothing while portal.who is "{settings.portal.who}".')


def _as_json(invitation: Invitation) -> dict[str, object]:
    return {
        "id": invitation.id,
        "note": invitation.note,
        "uses_left": invitation.uses_left,
        "created_at": invitation.created_at,
        "expires_at": invitation.expires_at,
    }


def _warn(settings: Settings) -> None:
    if settings.registration.mode == RegistrationMode.OFF:
        say.note('Nothing can be registered with it while registration.mode is "off".')
