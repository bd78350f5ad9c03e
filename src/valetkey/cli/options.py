"""Options shared by commands, the settings that they select, and the format of times."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from valetkey.config.environment import environment
from valetkey.config.load import USUAL_FILE, find_file, load
from valetkey.config.rules import show_lifetime
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant, Lifetime, parse_lifetime
from valetkey.kernel.refusal import OperatorError

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


NONE = "none"
"""The value of an option that removes what was set."""


class Duration(click.ParamType[object]):
    """A length of time from `least` to `most` seconds; `none` where that is `nullable`."""

    name = "duration"

    def __init__(self, least: int = 1, most: int | None = None, *, nullable: bool = False) -> None:
        """Accept these bounds; 0 has no unit."""
        self.least, self.most, self.nullable = least, most, nullable

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the seconds."""
        if isinstance(value, int) or (self.nullable and value == NONE):
            return value
        try:
            lifetime = Lifetime(0) if value == "0" else parse_lifetime(str(value).strip())
        except OperatorError as error:
            self.fail(error.message, param, ctx)
        if lifetime < self.least or (self.most is not None and lifetime > self.most):
            most = "" if self.most is None else f", at most {duration(self.most)}"
            self.fail(f"it is at least {duration(self.least)}{most}", param, ctx)
        return lifetime


def duration(seconds: int) -> str:
    """Return a length of time as it is entered: 3600 is "1h"."""
    return show_lifetime(Lifetime(seconds)) if seconds else "0"


def entries(values: Iterable[str]) -> list[str]:
    """Return the values of a repeated option; several in one are separated by spaces or commas.

    A URL may contain a comma.
    """
    texts = (text if "://" in text else text.replace(",", " ") for text in values)
    return [entry for text in texts for entry in text.split()]


def settings_of(config: Path | None) -> Settings:
    """Return the settings that a command uses. Raises OperatorError with every problem."""
    return load(find_file(config), environment())


def shown(at: int | None) -> str:
    """Return a time such as `2026-03-01 12:00:00 UTC`, or "" for None."""
    return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def stamp(at: Instant) -> str:
    """Return a time such as `20260301-120000` for file names, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}"
