"""`valetkey owner`: print a single-use link that makes its user an owner, for fifteen minutes."""

from pathlib import Path

import click

from valetkey.authorization.actions.admin.owner import OWNER_LINK_LIFETIME, fresh_link, issue_link
from valetkey.cli import options, say
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.config.paths import owner_link_path
from valetkey.kernel.keyring import replace_secret_file

_PAGE = "/admin/owner"


@click.command()
@click.option(
    "--break-glass",
    is_flag=True,
    help="Create one although an owner exists, if no owner can sign in. This is logged.",
)
@options.config_file
@options.as_json
def command(break_glass: bool, config: Path | None, as_json: bool) -> None:
    """Print a link that makes the user who opens it an owner of this server.

    It works once, for fifteen minutes, and only for a user with a passkey or an authenticator app.
    It is also written to a file that only you can read, and to no log. Owners assign roles to
    others at /admin/roles, or with: valetkey user role

    The server must exist: create one with valetkey serve or valetkey apply.

    Example: valetkey owner
    """
    settings = options.settings_of(config)

    async def issue_owner_link(opened: OpenedStore) -> str:
        link, key = fresh_link(opened.runtime.random), opened.keyring.fingerprint_key
        url = f"{opened.foundation.issuer}{_PAGE}?link={link.reveal()}"
        await opened.store.write(
            lambda tx: issue_link(tx, link, key, opened.now, break_glass=break_glass),
        )
        return url

    url = with_store(settings, issue_owner_link)
    path = owner_link_path(settings)
    replace_secret_file(path, f"{url}\n")
    if as_json:
        say.as_json({"url": url, "file": str(path), "expires_in": OWNER_LINK_LIFETIME})
        return
    say.line(url)
    say.note(f"Open it within {OWNER_LINK_LIFETIME // 60} minutes: it makes you an owner, once.")
    say.note(f"It is in {path} as well, which only you can read.")
