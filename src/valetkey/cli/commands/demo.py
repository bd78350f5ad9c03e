"""`valetkey demo`: both servers with example data, removed when the demo ends."""

import sys
from pathlib import Path

import click

from valetkey.cli import options, say
from valetkey.cli.demo import screen
from valetkey.cli.demo.running import Running, run
from valetkey.cli.demo.walking.walk import walk as tell
from valetkey.cli.demo.wire import Unanswered
from valetkey.cli.say import Exit
from valetkey.kernel.refusal import OperatorError


@click.command()
@click.option("--walk", is_flag=True, help="Run the scripted demo over real HTTP, then stop.")
@click.option("--verbose", is_flag=True, help="With --walk: show every exchange in full.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep all data in this folder, and continue with it next time.",
)
@options.as_json
def command(walk: bool, verbose: bool, keep: Path | None, as_json: bool) -> int:
    """Run both servers with an example app, a second API and a user. No setup is needed.

    Everything runs on loopback, in a temporary folder that is removed when you press Ctrl-C. The
    ports are 8400 to 8403, or free ones if these are in use.

    With --walk the demo acts as user and apps itself and checks every response, one line per
    chapter; with --verbose it prints every exchange. Exit code 0 if all of them were right, else 1.

    Example: valetkey demo --walk
    """
    if as_json and not walk:
        raise OperatorError("--json goes with --walk")
    if verbose and not walk:
        raise OperatorError("--verbose goes with --walk")
    if sys.stderr.isatty():
        say.note(say.faint("Starting two servers, an app and a second API …"))
    context = click.get_current_context()

    def show_demo(running: Running) -> int:
        # In a thread of its own, which must know what this one knows about color.
        with context.scope(cleanup=False):
            if walk:
                return tell(running, as_json=as_json, verbose=verbose)
            return screen.run_until_interrupted(running, kept=keep is not None)

    try:
        code = run(keep, show_demo)
    except Unanswered as unanswered:
        say.error(str(unanswered))
        return Exit.FAILED
    if code == Exit.INTERRUPTED or (code == Exit.OK and not walk):
        left = f"Everything is kept in {keep}." if keep else "Nothing is left behind."
        say.note(f"Stopped. {left}")
    return code
