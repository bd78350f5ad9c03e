"""`valetkey login`: sign in to an app in the browser, and print the access token."""

from pathlib import Path

import click

from valetkey.cli import options, say
from valetkey.cli.say import Exit
from valetkey.config.environment import environment
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Secret
from valetkey.kernel.url import parse_url
from valetkey.sdk.client import Client, Rejected, Unreachable
from valetkey.sdk.client.token_endpoint import WAIT, open_browser

_SECRET = "CLIENT_SECRET"


@click.command()
@click.argument("client_id")
@click.option(
    "--server",
    metavar="URL",
    help="The authorization server. Default: the one of the configuration.",
)
@click.option("--scope", "scopes", multiple=True, help="A scope to request; may be repeated.")
@click.option("--resource", default="", metavar="URL", help="The API that the token is for.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Listen on this port.")
@click.option("--no-browser", is_flag=True, help="Show the address instead of opening it.")
@options.config_file
@options.as_json
def command(
    client_id: str,
    server: str | None,
    scopes: tuple[str, ...],
    resource: str,
    port: int,
    no_browser: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Sign in to an app in the browser, and print an access token for it.

    For developers who try an API: listens on this machine for the response, so no app has to run.
    A native app needs the redirect URI http://127.0.0.1/callback, which matches every port; any
    other app needs the one with --port, such as http://127.0.0.1:8765/callback. The secret of an
    app that has one is read from the environment variable CLIENT_SECRET. Nothing is stored.

    Example: valetkey login app_7f3k9qxm --scope notes:read --server https://auth.example.com
    """
    url = _url(server or options.settings_of(config).authorization.url)
    secret = environment().get(_SECRET, "")
    client = Client(
        url,
        client_id,
        secret=Secret(secret) if secret else None,
        scope=" ".join(scopes),
        resource=resource,
    )

    def show(address: str) -> None:
        say.note(f"Sign in within {WAIT // 60:.0f} minutes:\n{address}")
        if not no_browser:
            open_browser(address)

    try:
        tokens = client.sign_in(show=show, port=port)
    except (Rejected, TimeoutError, Unreachable, OSError) as failure:
        say.error(str(failure))
        return Exit.FAILED
    expires = options.shown(tokens.expires_at)
    if as_json:
        access_token = tokens.access_token.reveal()
        say.as_json(
            {"access_token": access_token, "scope": tokens.scope, "expires_at": tokens.expires_at}
        )
        return Exit.OK
    say.note(f"Scope: {tokens.scope or 'none'}. Expires: {expires}.")
    say.line(tokens.access_token.reveal())
    return Exit.OK


def _url(text: str) -> str:
    """Return the URL of the server. Raises OperatorError unless secrets are safe on the way."""
    web = parse_url(text)
    if web is None or (web.scheme != "https" and not web.is_loopback()):
        raise OperatorError(
            f"{text} is not the https address of an authorization server", "--server"
        )
    return text.rstrip("/")
