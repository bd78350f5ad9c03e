"""The one screen of a demo that stays: what to open, whom to sign in as, what to paste."""

from valetkey.cli import say
from valetkey.cli.demo import notes
from valetkey.cli.demo.running import Running
from valetkey.cli.demo.site import NAME, PASSWORD, PRINTER, USERNAME, Site


def stay(running: Running, *, kept: bool) -> int:
    """Show the screen, and wait until somebody stops the demo."""
    show(running.site, notes.seed(running.site).token, kept=kept)
    running.stopping.wait()
    return 0


def show(site: Site, token: str, *, kept: bool) -> None:
    """Everything that somebody needs who has never been here."""
    say.line(say.strong("Valetkey is running, with an app that wants to read Ada's notes."))
    say.line()
    _field("open", say.strong(site.app_url), "Notes Printer, and connect your notes")
    _field("sign in as", say.strong(USERNAME), NAME)
    _field("password", say.strong(PASSWORD))
    say.line()
    say.line(say.strong("Paste these"))
    asked = f"grant_type=client_credentials&client_id={PRINTER}&client_secret="
    _paste(
        "1",
        "the app asks for a token of its own, everything in the query string",
        f"curl -X POST '{site.auth_url}/token?{asked}{site.secret(PRINTER)}'",
    )
    _paste(
        "2",
        "Ada's notes: a POST without a body reads",
        f"curl -X POST {site.api_url}/v2/notes -H 'Authorization: Bearer {token}'",
    )
    _paste(
        "3",
        "another note, which the app shows when you open it again",
        f"curl {site.api_url}/v2/notes -H 'Authorization: Bearer {token}' "
        '--json \'{"title": "From a terminal"}\'',
    )
    say.line()
    say.line("Sources of the app: python -m valetkey.cli.demo.notes_printer --help")
    where = f"stays in {site.directory}" if kept else f"goes with it ({site.directory})"
    say.line(f"Ctrl-C stops everything; what it holds {where}.")


def _field(name: str, value: str, more: str = "") -> None:
    say.line(f"  {say.faint(f'{name:<10}')}  {value}{'   ' if more else ''}{say.faint(more)}")


def _paste(number: str, about: str, line: str) -> None:
    say.line(f"  {say.faint(f'# {number}. {about}')}")
    say.line(f"  {line}")
