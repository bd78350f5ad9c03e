"""Output for people and for scripts, in one style."""

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

import click

from valetkey.kernel.text import printable


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    INVALID = 2
    INTERRUPTED = 130


def as_json(value: object) -> None:
    """Print `value` as one JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def program() -> str:
    """Return the program as it is called from here: its name if that is on the PATH."""
    executable, called = shutil.which("valetkey"), Path(sys.argv[0])
    if called.name != "valetkey" or not called.exists():
        return "valetkey"
    if executable and Path(executable).samefile(called):
        return "valetkey"
    path, here = called.absolute(), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def line(text: str = "") -> None:
    """Print a line on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """Print a line for people on standard error, never part of the output."""
    click.echo(text, err=True)


def progress(text: str) -> None:
    """Show the progress of a command on one line of a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        click.echo(f"\r{text[: columns - 1]:<{columns - 1}}\r", nl=False, err=True)


def error(text: str) -> None:
    """Print an error on standard error."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {text}", err=True)


def strong(text: str) -> str:
    """Return `text` in bold on a terminal."""
    return click.style(text, bold=True)


def faint(text: str) -> str:
    """Return `text` dimmed on a terminal."""
    return click.style(text, dim=True)


def coloured(text: str, colour: str) -> str:
    """Return `text` in a color on a terminal."""
    return click.style(text, fg=colour)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns below dimmed headings; control characters are shown as ?."""
    cells = [[_plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(head), *cells]) for at in range(len(head))]
    line(faint(_row(head, widths)))
    for row in cells:
        line(_row(row, widths))


def fields(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line, the values in one column."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        line(f"{faint(f'{name:<{width}}')}  {_plain(value)}".rstrip())


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def _plain(text: str) -> str:
    # Names that users choose must not send control sequences to the operator's terminal.
    return printable(text, "?")
