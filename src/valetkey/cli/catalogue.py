"""Help and completion of commands without importing them.

A command imports the server, which takes longer than most commands run. Its help, and what a shell
completes, come from `catalogue.json`, which `make docs` writes from the commands themselves; a
command that is not in it yet answers on its own. Everything else is done by the command.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import click
from click.exceptions import NoArgsIsHelpError
from msgspec import Raw, Struct, json

FILE = Path(__file__).with_name("catalogue.json")


class CommandParameter(Struct, frozen=True, omit_defaults=True):
    """An option, or an argument: what is shown, parsed and completed.

    `names` are those that click is told, `metavar` and `help` as they are shown, with bounds and
    default. `completes` are the choices, or `file` or `dir` alone for a path.
    """

    names: tuple[str, ...]
    metavar: str = ""
    help: str = ""
    is_argument: bool = False
    is_flag: bool = False
    multiple: bool = False
    values: int = 1
    completes: tuple[str, ...] = ()

    def build(self) -> click.Parameter:
        """Return the parameter without its type."""
        kind: click.ParamType[object] = click.STRING
        if self.completes in {("file",), ("dir",)}:
            kind = click.Path(file_okay=self.completes == ("file",))
        elif self.completes:
            kind = click.Choice(self.completes)
        if self.is_argument:
            return click.Argument(
                self.names, metavar=self.metavar, nargs=self.values, required=False, type=kind
            )
        if self.is_flag:
            return click.Option(self.names, is_flag=True, multiple=self.multiple, help=self.help)
        return click.Option(
            self.names,
            metavar=self.metavar,
            nargs=self.values,
            multiple=self.multiple,
            type=kind,
            help=self.help,
        )


class Described(Struct, frozen=True, omit_defaults=True):
    """A command or a group; `runs` is true for a group that does something without a command.

    `purpose` is the summary of a feature's group, `heading` the part of the list of all commands
    that it is in, and `guide` the page that helps with its errors.
    """

    help: str
    parameters: tuple[CommandParameter, ...] = ()
    is_group: bool = False
    runs: bool = False
    ignores_unknown_options: bool = False
    purpose: str = ""
    guide: str = ""
    heading: str = ""


def print_help(context: click.Context, name: str, words: Sequence[str]) -> None:
    """Print the help that these words, the first of them the command, ask for and raise Exit.

    Returns if they ask for none, or if the command has to say what is wrong with them.
    """
    called, *arguments = words
    asks = not arguments or not set(context.help_option_names).isdisjoint(arguments)
    command = described(name) if asks else None
    if command is None:
        return
    try:
        with command.make_context(called, arguments, parent=context) as below:
            command.invoke(below)
    except NoArgsIsHelpError:
        raise
    except click.UsageError:
        return


def described(name: str) -> click.Command | None:
    """Return the command as the catalogue describes it, or None. It does nothing when invoked."""
    text = _entries().get(name)
    return None if text is None else _built(name, json.decode(text, type=Described))


def feature_groups() -> Iterator[tuple[str, Described]]:
    """Return the groups of features, by name."""
    for path, text in _entries().items():
        if " " not in path and (group := json.decode(text, type=Described)).purpose:
            yield path, group


def feature_guides() -> Iterator[tuple[str, str]]:
    """Return groups and commands of features, each with the page that helps with its errors."""
    for path, text in _entries().items():
        if guide := json.decode(text, type=Described).guide:
            yield path, guide


@cache
def _entries() -> Mapping[str, Raw]:
    return json.decode(FILE.read_bytes(), type=dict[str, Raw])


def _built(path: str, entry: Described) -> click.Command:
    name = path.rpartition(" ")[2]
    parameters = [parameter.build() for parameter in entry.parameters]
    if not entry.is_group:
        return click.Command(
            name,
            params=parameters,
            help=entry.help,
            context_settings={"ignore_unknown_options": entry.ignores_unknown_options},
        )
    group = click.Group(name, params=parameters, help=entry.help, invoke_without_command=entry.runs)
    for below, text in _entries().items():
        if below.rpartition(" ")[0] == path:
            group.add_command(_built(below, json.decode(text, type=Described)))
    return group
