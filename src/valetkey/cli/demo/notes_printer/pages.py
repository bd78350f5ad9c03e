"""The pages of Notes Printer: pieces of page.html, filled in."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    (
        "Content-Security-Policy",
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'self'",
    ),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
"""Sent with every answer."""

_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))

_WELCOME = """
<h1>Your notes, on paper</h1>
<p class="lead">Notes Printer reads the notes you keep elsewhere and lays them out to print.</p>
<p><a class="button" href="/sign-in">Connect your notes</a></p>
<p class="small">You sign in there, not here: this app never sees your password.</p>
"""

_NOTES = Template("""
<div class="top">
  <div>
    <h1>$name</h1>
    <p class="small">$count, fresh from the server</p>
  </div>
  <form method="post" action="/sign-out"><button>Sign out</button></form>
</div>
<div class="sheets">$sheets</div>
""")

_SHEET = Template("<article><h2>$title</h2><p>$text</p></article>")

_EMPTY = "<article><h2>No notes yet</h2><p>Write one, and open this page again.</p></article>"

_DENIED = """
<h1>All right, no notes</h1>
<p class="lead">You did not allow it, so there is nothing here to print.</p>
<p><a class="button" href="/sign-in">Ask again</a></p>
"""

_WORRY = Template("""
<h1>That did not work</h1>
<p class="lead">$why</p>
<p><a class="button" href="/sign-in">Try again</a></p>
<p class="small">Error code: $code</p>
""")


def page(content: str) -> bytes:
    """The whole page around `content`, which is HTML."""
    return _PAGE.substitute(content=content).encode()


def welcome() -> str:
    """Return the page for a visitor who is not signed in."""
    return _WELCOME


def notes(name: str, texts: Sequence[tuple[str, str]]) -> str:
    """The notes of the person called `name`, each with title and text."""
    count = "1 note" if len(texts) == 1 else f"{len(texts)} notes"
    sheets = "".join(
        _SHEET.substitute(title=escape(title), text=escape(text)) for title, text in texts
    )
    return _NOTES.substitute(name=escape(name), count=count, sheets=sheets or _EMPTY)


def worry(code: str, why: str) -> str:
    """Return the error page, with a link to start again."""
    if code == "access_denied":
        return _DENIED
    return _WORRY.substitute(code=escape(code), why=escape(why))
