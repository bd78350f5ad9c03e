"""The output of a running demo: URLs to open, accounts to sign in with, commands to paste."""

import shlex

from valetkey.cli import say
from valetkey.cli.demo import notes
from valetkey.cli.demo.running import Running
from valetkey.cli.demo.site import (
    NAME,
    OWNER,
    OWNER_PASSWORD,
    PASSWORD,
    PRINTER,
    USERNAME,
    DemoSite,
)


def run_until_interrupted(running: Running, *, kept: bool) -> int:
    """Print the output, and wait until the demo is interrupted."""
    site = running.site
    show(site, notes.seed(site).token, kept=kept)
    running.stopping.wait()
    return 0


def show(site: DemoSite, token: str, *, kept: bool) -> None:
    """Print URLs, accounts and commands for a first look."""
    say.line(say.strong("Valetkey is running, with an app that wants to read Ada's notes."))
    say.line()
    _field("open", say.strong(site.app_url), "Notes Printer, and connect your notes")
    _field("sign in as", say.strong(USERNAME), f"{NAME}, whose password is: {PASSWORD}")
    _field(
        "account",
        say.strong(f"{site.auth_url}/"),
        "connected apps, passkeys, sessions; make one too",
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
    _field("commands", f"valetkey doctor --config {configuration}", "and all others alike")
    say.line()
    say.line(say.strong("Paste these"))
    secret = f"client_id={PRINTER}&client_secret={site.secret(PRINTER)}"
    header = f"-H 'Authorization: Bearer {token}'"
    notes_url = f"{site.api_url}/v2/notes"
    _paste(
        "The app asks for a token of its own, with everything in the query string:",
        f"curl -X POST '{site.auth_url}/token?grant_type=client_credentials&{secret}'",
    )
    say.line()
    _paste(
        "Ada's notes, with a token of hers. A POST without a body reads:",
        f"curl -X POST {notes_url} \\",
        f"  {header}",
    )
    say.line()
    _paste(
        "Another note. Open the app again, and it is there:",
        f'curl {notes_url} -d \'{{"title": "From a terminal"}}\' \\',
        "  -H 'Content-Type: application/json' \\",
        f"  {header}",
    )
    say.line()
    say.line(say.strong("Stop it") + " with Ctrl-C. " + _afterwards(site, kept=kept))


def _afterwards(site: DemoSite, *, kept: bool) -> str:
    if not kept:
        return f"Everything goes with it: it lives in {site.directory} alone."
    return f"Everything stays in {site.directory}, and goes on the next time."


def _field(name: str, value: str, more: str = "") -> None:
    say.line(f"  {say.faint(f'{name:<10}')}  {value}{'   ' if more else ''}{say.faint(more)}")


def _paste(about: str, *lines: str) -> None:
    say.line(f"  {say.faint(f'# {about}')}")
    for line in lines:
        say.line(f"  {line}")
