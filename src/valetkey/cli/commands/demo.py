"""`valetkey demo`: both servers with example data, removed when the demo ends."""

import shlex
from pathlib import Path

import click

from valetkey.cli import options, say
from valetkey.cli.demo.running import Running, run, seed
from valetkey.cli.demo.site import (
    NAME,
    OWNER,
    OWNER_PASSWORD,
    PASSWORD,
    PRINTER,
    SERVICE,
    USERNAME,
    DemoSite,
)
from valetkey.cli.demo.walking.walk import walk as tell
from valetkey.cli.demo.wire import Unanswered
from valetkey.cli.say import Exit
from valetkey.kernel.refusal import OperatorError


def run_until_interrupted(running: Running, *, kept: bool) -> int:
    """Print the output, and wait until the demo is interrupted."""
    site = running.site
    show(site, seed(site).token, kept=kept)
    running.stopping.wait()
    return 0


def show(site: DemoSite, token: str, *, kept: bool) -> None:
    """Print URLs, accounts and commands for a first look."""
    about = f"Valetkey is running for {SERVICE}, a service for notes. An app wants to read Ada's."
    say.line(say.strong(about))
    say.line()
    _field("open", say.strong(site.app_url), "open Notes Printer and connect your notes")
    _field("sign in as", say.strong(USERNAME), f"{NAME}, whose password is: {PASSWORD}")
    _field(
        "account",
        say.strong(f"{site.auth_url}/"),
        "connected apps, passkeys, sessions; or create an account",
    )
    _field(
        "developers",
        say.strong(f"{site.auth_url}/developer"),
        "Notes Printer is Ada's: usage, failed requests, health",
    )
    _field("calendar", say.strong(site.calendar), "a second API: 401 without a token for it")
    _field("mail", say.strong(site.mailbox), "emails of the demo")
    _field(
        "owner",
        say.strong(f"{site.auth_url}/admin"),
        f"sign in as {OWNER}, whose password is: {OWNER_PASSWORD}",
    )
    configuration = shlex.quote(str(site.configuration.absolute()))
    _field(
        "commands",
        f"{say.program()} doctor --config {configuration}",
        "takes the same --config as all other commands",
    )
    say.line()
    say.line(say.strong("Commands to try"))
    secret = f"client_id={PRINTER}&client_secret={site.secret(PRINTER)}"
    header = f"-H 'Authorization: Bearer {token}'"
    notes_url = f"{site.api_url}/v2/notes"
    _paste(
        "The app requests a token of its own, with all parameters in the query string:",
        f"curl -X POST '{site.auth_url}/token?grant_type=client_credentials&{secret}'",
    )
    say.line()
    _paste(
        "Read Ada's notes with her token (a POST without a body reads):",
        f"curl -X POST {notes_url} \\",
        f"  {header}",
    )
    say.line()
    _paste(
        "Add a note, then open the app again to see it:",
        f'curl {notes_url} -d \'{{"title": "From a terminal"}}\' \\',
        "  -H 'Content-Type: application/json' \\",
        f"  {header}",
    )
    say.line()
    say.line(say.strong("Stop it") + " with Ctrl-C. " + _afterwards(site, kept=kept))


def _afterwards(site: DemoSite, *, kept: bool) -> str:
    if not kept:
        return f"The folder {site.directory} is then deleted."
    return f"All data is kept in {site.directory} for the next run."


def _field(name: str, value: str, more: str = "") -> None:
    say.line(f"  {say.faint(f'{name:<10}')}  {value}{'   ' if more else ''}{say.faint(more)}")


def _paste(about: str, *lines: str) -> None:
    say.line(f"  {say.faint(f'# {about}')}")
    for line in lines:
        say.line(f"  {line}")


@click.command()
@click.option("--walk", is_flag=True, help="Run the scripted demo over real HTTP, then stop.")
@click.option("--stay", is_flag=True, help="With --walk: keep everything running afterwards.")
@click.option("--verbose", is_flag=True, help="With --walk: show every exchange in full.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep all data in this folder, and continue with it next time.",
)
@options.as_json
def command(walk: bool, stay: bool, verbose: bool, keep: Path | None, as_json: bool) -> int:
    """Run both servers with an example app, a second API and a user. No setup is needed.

    Everything runs on loopback, in a temporary folder that is removed when you press Ctrl-C. The
    ports are 8400 to 8403, or free ones if these are in use.

    With --walk the demo acts as user and apps itself and checks every response, one line per
    chapter; with --verbose it prints every exchange, and with --stay the servers go on. Exit code 0
    if all of them were right, else 1.

    Example: valetkey demo --walk
    """
    if as_json and not walk:
        raise OperatorError("--json goes with --walk")
    if verbose and not walk:
        raise OperatorError("--verbose goes with --walk")
    if stay and not walk:
        raise OperatorError("--stay goes with --walk")
    context = click.get_current_context()

    def show_demo(running: Running) -> int:
        # Runs in another thread: the context says whether to print colors.
        with context.scope(cleanup=False):
            code = tell(running, as_json=as_json, verbose=verbose) if walk else Exit.OK
            if code or (walk and not stay):
                return code
            return run_until_interrupted(running, kept=keep is not None)

    def show_progress(text: str) -> None:
        if not as_json:
            say.note(say.faint(text))

    try:
        code = run(keep, show_demo, show_progress)
    except Unanswered as unanswered:
        say.error(str(unanswered))
        return Exit.FAILED
    if code == Exit.INTERRUPTED or (code == Exit.OK and (stay or not walk)):
        left = f"Everything is kept in {keep}." if keep else "Nothing is left behind."
        say.note(f"Stopped. {left}")
    return code
