"""Options shared by commands, the settings that they select, and the format of times."""

from datetime import UTC, datetime
from pathlib import Path

import click

from valetkey.config.environment import environment
from valetkey.config.load import USUAL_FILE, find_file, load
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant

config_file = click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path),
    envvar="VALETKEY_CONFIG",
    metavar="FILE",
    help=f"The configuration file. Default: ./{USUAL_FILE}, if it exists.",
)

config_folder = click.option(
    "--configs",
    "configs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="A folder with a configuration for each issuer, instead of one configuration.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")

new = click.option(
    "--new",
    is_flag=True,
    help="Start with an empty database if one that the server knows is missing.",
)

yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command()
@config_file
@as_json
def _every(**_: object) -> None: ...


EVERY = _every.params
"""Options that every derived command has."""


def settings_of(config: Path | None) -> Settings:
    """Return the settings that a command uses. Raises OperatorError with every problem."""
    return load(find_file(config), environment())


def shown(at: int | None) -> str:
    """Return a time such as `2026-03-01 12:00:00 UTC`, or "" for None."""
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def stamp(at: Instant) -> str:
    """Return a time such as `20260301-120000` for file names, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}"
