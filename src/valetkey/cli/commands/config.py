"""`valetkey config`: check the configuration, and explain each setting."""

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import cast

import click

from valetkey.cli import options, say
from valetkey.cli.doctoring import problems_of
from valetkey.cli.register.store import OpenedStore, is_begun, with_store
from valetkey.cli.say import Exit
from valetkey.config.catalogue import Explained, explain
from valetkey.config.load import OperatorErrors
from valetkey.config.settings import Origin, Settings
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError


@click.group()
def command() -> None:
    """Check the configuration, explain each setting.

    Example: valetkey config explain tokens
    """


@command.command()
@options.config_file
@options.as_json
def check(config: Path | None, as_json: bool) -> int:
    """Check the configuration and report all problems at once.

    Exit code 0 if there is none, 2 if there is.

    Example: valetkey config check --config valetkey.toml
    """
    try:
        settings = options.settings_of(config)
        problems = tuple(problems_of(settings))
    except OperatorErrors as errors:
        problems = errors.problems
    if as_json:
        shown_problems = [{"setting": p.path, "wrong": p.wrong, "right": p.right} for p in problems]
        say.as_json({"ok": not problems, "problems": shown_problems})
    elif problems:
        raise OperatorErrors(str(config or "the configuration"), problems)
    else:
        say.line("The configuration is right. Next: valetkey serve")
    return Exit.INVALID if problems else Exit.OK


@command.command("explain")
@click.argument("setting", default="")
@options.config_file
@options.as_json
def explain_(setting: str, config: Path | None, as_json: bool) -> None:
    """Show each setting's value, where that comes from, its default and its reason.

    SETTING is a name such as tokens.access_token_lifetime or a section such as tokens; without
    it every setting is explained. Values that were set at runtime are read from the database, if
    there is one. Secrets are not shown.

    Example: valetkey config explain authorization.listen
    """
    settings = options.settings_of(config)
    explain(settings, setting)  # an unknown name needs no database
    explained = explain(_with_stored(settings), setting)
    if as_json:
        say.as_json([asdict(line) for line in explained])
        return
    section = ""
    for line in explained:
        if line.path.partition(".")[0] != section:
            section = line.path.partition(".")[0]
            say.line(say.strong(f"[{section}]"))
        _show(line)


def _with_stored(settings: Settings) -> Settings:
    """Return the settings with the stored values; a remark says if they cannot be read."""

    async def in_effect(opened: OpenedStore) -> Settings:
        return opened.settings

    try:
        if not is_begun(settings, settings.authorization):
            return settings
        return with_store(settings, in_effect)
    except (DatabaseUnavailable, OperatorError) as reason:
        say.note(f"Without values that were set at runtime: {reason}")
        return settings


def _show(line: Explained) -> None:
    name = line.path.partition(".")[2]
    changed = line.origin is not Origin.DEFAULT
    origin = f"{line.origin}; default {_toml(line.default)}" if changed else "default"
    unit = f" {line.unit}" if isinstance(line.value, int) and line.unit else ""
    say.line(f"{say.strong(name)} = {_toml(line.value)}{unit}  {say.faint(f'({origin})')}")
    say.line(fill(line.reason, 96, initial_indent="    ", subsequent_indent="    "))
    say.line(say.faint(f"    allowed: {line.allowed}; {line.variable}"))


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(f'"{item}"' for item in cast("list[object]", value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
