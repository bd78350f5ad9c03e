"""The command line as a whole: one screen, help with examples, exit codes, one voice."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.cli.running import valetkey as run_quickly
from tests.cli.running import valetkey_from_the_shell as valetkey
from tests.cli.site import configure
from valetkey.cli.main import COMMANDS


def walk(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    commands = [(name, command)]
    if isinstance(command, click.Group):
        for inner, part in command.commands.items():
            commands += walk(f"{name} {inner}", part)
    return commands


def every_command() -> list[tuple[str, click.Command]]:
    commands: list[tuple[str, click.Command]] = []
    for listed in COMMANDS:
        commands += walk(listed.name, listed.command())
    return commands


def test_program_without_arguments_lists_every_command_on_one_screen(tmp_path: Path) -> None:
    ran = valetkey(here=tmp_path)
    assert ran.code == 0
    assert len(ran.out.splitlines()) <= 44
    assert max(len(line) for line in ran.out.splitlines()) <= 80
    for listed in COMMANDS:
        assert listed.name in ran.out
        assert listed.purpose in ran.out


def test_every_command_has_help_with_an_example() -> None:
    for name, command in every_command():
        example = (command.help or "").partition("Example: valetkey ")[2]
        assert example.startswith(name.partition(" ")[0]), name
        assert not re.search(r"(?<!\S)[A-Z_]{3,}(?!\S)", example.partition("\n\n")[0]), name


_BEGINS = {"apply", "database migrate"}
"""What makes a keyring and a database where there are none, beside those that go on running."""
_RUNS_ON = {"demo", "login", "serve"}


def test_other_commands_create_neither_keyring_nor_database(tmp_path: Path) -> None:
    """Each as its help shows it, in a folder with nothing but a configuration."""
    made: set[str] = set()
    wrong: dict[str, str] = {}
    for number, (name, command) in enumerate(every_command()):
        if isinstance(command, click.Group) or name in _RUNS_ON:
            continue
        here = tmp_path / str(number)
        here.mkdir()
        configure(here)
        config = here / "valetkey.toml"
        config.write_text(config.read_text() + '[accounts]\nsign_up = "open"\n')
        (here / "apply.toml").write_text("")
        before = sorted(here.rglob("*"))
        example = (command.help or "").partition("Example: valetkey ")[2]
        words = shlex.split(example.partition("\n\n")[0].partition(" > ")[0])
        ran = run_quickly(*words, here=here)
        missing = "does not exist" in ran.err or "No such file" in ran.err
        if "Try: valetkey" in ran.err and not missing:
            wrong[name] = ran.err
        if sorted(here.rglob("*")) != before:
            made.add(name)
    assert not wrong
    assert made == _BEGINS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serv"], "did you mean `valetkey serve`?"),
        (["frobnicate"], "there is no command 'frobnicate'"),
        (["config", "chek"], "check"),
        (["config", "check", "--config"], "--config"),
        (["config", "check", "--config", "absent.toml"], "absent.toml cannot be read"),
        (["serve", "everything"], "everything"),
    ],
)
def test_invalid_arguments_are_reported_without_traceback_with_exit_code_two(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    ran = valetkey(*arguments, here=tmp_path)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_colour_is_for_terminals_only(tmp_path: Path) -> None:
    ran = valetkey("config", "explain", here=tmp_path)
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err


def test_version_option_prints_the_version(tmp_path: Path) -> None:
    assert valetkey("--version", here=tmp_path).out.startswith("valetkey 0.")
