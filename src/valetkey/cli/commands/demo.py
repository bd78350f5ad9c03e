"""`valetkey demo`: the whole thing to look at, and nothing left of it afterwards."""

import functools
from pathlib import Path

import click

from valetkey.cli import options
from valetkey.cli.demo import running, screen
from valetkey.cli.demo.walk import walk as tell
from valetkey.kernel.refusal import Mistake


@click.command()
@click.option("--walk", is_flag=True, help="Tell the whole story over real HTTP, then stop.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep everything in this folder, and go on with it the next time.",
)
@options.as_json
def command(walk: bool, keep: Path | None, as_json: bool) -> int:
    """Both servers, an example app and a user with notes, to look at. Needs nothing.

    Everything lives on loopback, in a temporary folder that goes when you press Ctrl-C. The ports
    are 8400, 8401 and 8402, or free ones where these are taken.

    With --walk it plays user and apps itself, shows every exchange and checks every answer. Exit
    code 0 if all of them were right, else 1.

    Example: valetkey demo --walk
    """
    if as_json and not walk:
        raise Mistake("--json goes with --walk")
    if walk:
        return running.run(keep, functools.partial(tell, as_json=as_json))
    return running.run(keep, functools.partial(screen.stay, kept=keep is not None))
