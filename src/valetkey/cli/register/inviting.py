"""`valetkey user invite`: a link with which its reader creates an account."""

from pathlib import Path

import click

from valetkey.authorization.email.address import is_mailable
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register.store import Opened, with_store
from valetkey.config.sections.accounts import SignUp
from valetkey.kernel.refusal import Mistake


@click.command()
@click.argument("email")
@click.option(
    "--language", default="en", metavar="TAG", help="The language of the email, such as de."
)
@options.config_file
@options.as_json
def invite(email: str, language: str, config: Path | None, as_json: bool) -> None:
    """Invite the owner of an email address to create an account within a week.

    The link is emailed to EMAIL; if mail is off, send it yourself. It works once, and only while
    `accounts.sign_up` is "invitation" or "open".

    Example: valetkey user invite grace@example.com
    """
    settings = options.settings_of(config)
    if settings.accounts.sign_up is SignUp.OFF:
        raise Mistake(
            'accounts cannot be created; set sign_up = "invitation" in [accounts]',
            "accounts.sign_up",
        )
    if not is_mailable(email):
        raise Mistake("email cannot be delivered to this address")

    async def work(opened: Opened) -> str:
        invitations = opened.foundation.people_invitations
        link = invitations.links.fresh()

        def deed(tx: Transaction) -> str:
            return invitations.invite(tx, email, link, language, opened.now)

        return await opened.store.write(deed)

    url = with_store(settings, work)
    if not url:
        raise Mistake("this address already has an account")
    is_sent = settings.mail.is_on
    if as_json:
        say.as_json({"email": email, "link": url, "mailed": is_sent})
        return
    if is_sent:
        say.line(f"An email was sent to {email}. If it does not arrive, send this link:")
    else:
        say.line(f"Mail is off: pass this link on to {email}. It works once, for a week.")
    say.line(url)
