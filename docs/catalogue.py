"""Describe every command for `src/valetkey/cli/catalogue.json`: see `cli/catalogue.py`."""

from collections.abc import Iterator
from inspect import cleandoc

import click
from msgspec import json

from valetkey.authorization.features import FEATURES
from valetkey.cli.catalogue import CommandParameter, Described
from valetkey.cli.commands.groups import group_of
from valetkey.cli.main import CORE_COMMANDS, valetkey
from valetkey.kernel.replace import replace


def catalogue() -> str:
    """Return the catalogue of all commands: one on each line, so that changes of two merge."""
    root = click.Context(valetkey, info_name="valetkey", color=False, **valetkey.context_settings)
    groups = {group.name: group for feature in FEATURES for group in feature.commands}
    guides = {path: page for feature in FEATURES for path, page in feature.handwritten.items()}
    commands = {
        **{listed.name: listed.command() for listed in CORE_COMMANDS},
        **{name: group_of(name) for name in groups},
    }
    lines = list[str]()
    for name, command in commands.items():
        for path, entry in _entries(command, root, name):
            whole = replace(entry, guide=guides.get(path, ""))
            if group := groups.get(path):
                whole = replace(
                    entry, purpose=group.purpose, heading=group.heading, guide=group.guide
                )
            lines.append(f"{json.encode(path).decode()}:{json.encode(whole).decode()}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _entries(
    command: click.Command, parent: click.Context, path: str
) -> Iterator[tuple[str, Described]]:
    context = click.Context(command, parent=parent, info_name=path.rpartition(" ")[2])
    group = command if isinstance(command, click.Group) else None
    yield (
        path,
        Described(
            cleandoc(command.help or ""),
            tuple(_parameter(parameter, context) for parameter in command.params),
            is_group=group is not None,
            runs=group is not None and group.invoke_without_command,
            ignores_unknown_options=bool(command.context_settings.get("ignore_unknown_options")),
        ),
    )
    for name, below in () if group is None else sorted(group.commands.items()):
        yield from _entries(below, context, f"{path} {name}")


def _parameter(parameter: click.Parameter, context: click.Context) -> CommandParameter:
    metavar = parameter.make_metavar(context)
    values, completes = parameter.nargs, _completes(parameter.type)
    if not isinstance(parameter, click.Option):
        return CommandParameter(
            (parameter.name,), metavar, is_argument=True, values=values, completes=completes
        )
    *others, last = parameter.opts
    names = (*others, "/".join((last, *parameter.secondary_opts)), parameter.name)
    _, text = parameter.get_help_record(context) or ("", "")
    if parameter.is_flag:
        return CommandParameter(names, help=text, is_flag=True, multiple=parameter.multiple)
    return CommandParameter(
        names,
        metavar,
        text,
        multiple=parameter.multiple,
        values=values,
        completes=completes,
    )


def _completes(kind: click.ParamType[object]) -> tuple[str, ...]:
    if isinstance(kind, click.Choice):
        return tuple(str(choice) for choice in kind.choices)
    if isinstance(kind, click.Path):
        return ("file",) if kind.file_okay else ("dir",)
    return ("file",) if isinstance(kind, click.File) else ()
