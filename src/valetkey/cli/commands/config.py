"""`valetkey config`: check the configuration, and explain each setting."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import cast

import click

from valetkey.authorization.app.foundation import check_grant_types, check_scopes
from valetkey.authorization.app.parts import brand_of
from valetkey.cli import options, say
from valetkey.cli.say import Exit
from valetkey.config import rules
from valetkey.config.agreement import Problem, missing_files
from valetkey.config.catalogue import Explained, explain
from valetkey.config.load import OperatorErrors
from valetkey.config.settings import Origin, Settings
from valetkey.fetch.outbound import trust
from valetkey.kernel.refusal import OperatorError
from valetkey.resource.objects.declared import read_directory
from valetkey.web.listen import tls_context

_BOTH = ("authorization", "resource")


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
        problems = (
            *missing_files(settings, _BOTH),
            *read_directory(settings)[1],
            *_read_as_serve_does(settings),
            *_foreign_logo(settings),
        )
    except OperatorErrors as errors:
        problems = errors.problems
    if as_json:
        found = [{"setting": p.path, "wrong": p.wrong, "right": p.right} for p in problems]
        say.as_json({"ok": not problems, "problems": found})
    elif problems:
        raise OperatorErrors(str(config or "the configuration"), problems)
    else:
        say.line("The configuration is right. Next: valetkey serve")
    return Exit.INVALID if problems else Exit.OK


def _read_as_serve_does(settings: Settings) -> Iterator[Problem]:
    """Return the errors in files that the authorization server reads at start."""
    folder, server = settings.source.directory, settings.authorization
    tls, ca_file = (server.tls_certificate, server.tls_key), settings.fetch.ca_file
    readers: tuple[tuple[str, bool, Callable[[], object]], ...] = (
        ("grant_types", True, lambda: check_grant_types(settings)),
        ("scopes", True, lambda: check_scopes(settings)),
        ("brand.theme", bool(settings.brand.theme), lambda: brand_of(settings)),
        (
            "authorization.tls_certificate",
            all(tls) and all((folder / name).is_file() for name in tls),
            lambda: tls_context(folder / tls[0], folder / tls[1]),
        ),
        ("fetch.ca_file", (folder / (ca_file or ".")).is_file(), lambda: trust(folder / ca_file)),
    )
    for setting, is_there, read in readers:
        try:
            if is_there:
                read()
        except OperatorError as error:
            yield Problem(setting, error.message, "correct it, or leave the setting out")


def _foreign_logo(settings: Settings) -> Iterator[Problem]:
    """Report a logo on another server: pages do not show it, although the server starts."""
    try:
        rules.LOGO.read(settings.brand.logo_url)
    except rules.InvalidValue as wrong:
        yield Problem("brand.logo_url", str(wrong), f"write {rules.LOGO.expected}")


@command.command("explain")
@click.argument("setting", default="")
@options.config_file
@options.as_json
def explain_(setting: str, config: Path | None, as_json: bool) -> None:
    """Show each setting's value, where that comes from, its default and its reason.

    SETTING is a name such as tokens.access_token_lifetime or a section such as tokens; without
    it every setting is explained. Secrets are not shown.

    Example: valetkey config explain authorization.listen
    """
    explained = explain(options.settings_of(config), setting)
    if as_json:
        say.as_json([asdict(line) for line in explained])
        return
    section = ""
    for line in explained:
        if line.path.partition(".")[0] != section:
            section = line.path.partition(".")[0]
            say.line(say.strong(f"[{section}]"))
        _show(line)


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
