"""Help and completion come from the catalogue, which says what the commands say."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from docs.catalogue import catalogue
from tests.cli.running import clean_environment
from tests.cli.site import begin
from valetkey.cli.catalogue import FILE, described, print_help
from valetkey.cli.main import COMMANDS, valetkey
from valetkey.cli.options import Duration

_MOST_MODULES = 16
"""Of this package, for a help. One operation of administration needs hundreds."""

_HEAVY = {
    "apsw",
    "asyncio",
    "cryptography",
    "httpx2",
    "idna",
    "jinja2",
    "psycopg",
    "ssl",
    "uvicorn",
}

_NOT_FOR_ONE_OBJECT = {
    "PIL",
    "email.message",
    "fido2",
    "httpx2",
    "jinja2",
    "jsonschema_rs",
    "structlog",
    "uvicorn",
    "valetkey.sdk",
}
"""What serves pages, sends email or fetches, and no command that reads or changes one object."""

_COUNT = """
import sys
from valetkey.cli.main import main

try:
    main()
finally:
    print("\\n".join(sys.modules), file=sys.stderr)
"""


def _root(width: int) -> click.Context:
    return click.Context(
        valetkey,
        info_name="valetkey",
        color=False,
        terminal_width=width,
        **valetkey.context_settings,
    )


def _pairs(
    one: click.Command, other: click.Command | None, context: click.Context, name: str
) -> Iterator[tuple[click.Context, click.Context]]:
    """Each command below `one` with the one of the same name below `other`."""
    assert other is not None, name
    at_one = click.Context(one, parent=context, info_name=name)
    at_other = click.Context(other, parent=context, info_name=name)
    yield at_one, at_other
    if isinstance(one, click.Group):
        assert isinstance(other, click.Group)
        assert one.commands.keys() == other.commands.keys()
        for below, command in one.commands.items():
            yield from _pairs(command, other.commands[below], at_one, below)


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_described_help_is_the_help_of_the_command(width: int) -> None:
    for listed in COMMANDS:
        command = described(listed.name)
        for one, other in _pairs(listed.command(), command, _root(width), listed.name):
            assert other.get_help() == one.get_help()
            assert other.get_usage() == one.get_usage()


def _options(command: click.Command) -> Iterator[click.Parameter]:
    yield from command.params
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _options(below)


def test_every_length_of_time_is_entered_with_its_unit() -> None:
    words = {"lifetime", "live", "lives", "age"}
    seconds = [
        option.opts
        for listed in COMMANDS
        for option in _options(listed.command())
        if isinstance(option, click.Option)
        and (
            (option.help or "").startswith("Seconds")
            or (words & {*option.opts[0].strip("-").split("-")})
        )
        and not isinstance(option.type, Duration)
    ]
    assert seconds == []


def test_catalogue_is_up_to_date() -> None:
    assert FILE.read_text() == catalogue(), "run `make docs`"


def _run(
    *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, str, Sequence[str]]:
    """Run a command; return its code, its output and the modules that it loaded."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", _COUNT, *arguments],
        env={**clean_environment(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["group", "create", "--help"],
        ["group", "--help"],
        ["users", "--help"],
        ["user", "import", "-h"],
        ["events", "verify", "--help"],
        ["client", "create", "--help"],
        ["database", "backup", "--help"],
        ["serve", "--help"],
    ],
    ids=" ".join,
)
def test_help_loads_few_modules(arguments: Sequence[str]) -> None:
    code, out, modules = _run(*arguments)
    assert code == 0
    assert "valetkey" in out
    assert len([module for module in modules if module.startswith("valetkey")]) <= _MOST_MODULES
    assert _HEAVY.isdisjoint(modules)


def _completions(*words: str) -> tuple[list[str], Sequence[str]]:
    code, out, modules = _run(
        environment={
            "_VALETKEY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("valetkey", *words)),
            "COMP_CWORD": str(len(words)),
        }
    )
    assert code == 0
    return out.split(), modules


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["gro"], ["plain,group"]),
        (["group", "cr"], ["plain,create"]),
        (["group", "create", "x", "--desc"], ["plain,--description"]),
        (["group", "list", "--sort", "na"], ["plain,name"]),
        (["serve", "auth"], ["plain,authorization"]),
        (["apply", "si"], ["file,si"]),
        (["database", "backup", "ba"], ["file,ba"]),
    ],
    ids=" ".join,
)
def test_shell_completes_without_loading_the_command(
    words: Sequence[str], offered: Sequence[str]
) -> None:
    completions, modules = _completions(*words)
    assert completions == offered
    assert len([module for module in modules if module.startswith("valetkey")]) <= _MOST_MODULES


def test_help_is_printed_only_where_the_command_would_print_it() -> None:
    """`--help` may be the value of an option, or come after a mistake."""
    root = _root(80)
    for words in (
        ["group", "create", "--description", "--help"],
        ["group", "create", "--", "--help"],
        ["group", "create", "--no-such-option", "--help"],
        ["group", "not-in-the-catalogue", "--help"],
        ["group", "create", "x"],
        ["events"],
    ):
        print_help(root, words[0], words)
    for words in (["group", "create", "--help"], ["group", "-h", "create"], ["events", "-h"]):
        with pytest.raises(click.exceptions.Exit):
            print_help(root, words[0], words)


def test_group_without_a_command_shows_its_help() -> None:
    code, out, rest = _run("group")
    assert code == 2
    assert not out
    assert rest[0] == "error: Usage: valetkey group [OPTIONS] COMMAND [ARGS]..."
    assert len([line for line in rest if line.startswith("valetkey")]) <= _MOST_MODULES


@pytest.mark.parametrize(
    "arguments",
    [["user", "show", "ada"], ["group", "create", "x"], ["client", "show", "x"], ["key", "list"]],
    ids=" ".join,
)
def test_command_loads_only_what_it_needs(arguments: Sequence[str], tmp_path: Path) -> None:
    begin(tmp_path)
    code, _, modules = _run(*arguments, "--config", str(tmp_path / "valetkey.toml"))
    assert code in {0, 2}
    assert "apsw" in modules
    # A feature imports its pages in a function, and their types under `TYPE_CHECKING`.
    loaded = _NOT_FOR_ONE_OBJECT & set(modules)
    assert not loaded
