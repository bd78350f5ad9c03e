"""The command line: its commands, each imported only when it is called."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword

import click
from msgspec import Struct

from valetkey.cli import catalogue, interrupts, say
from valetkey.cli.say import Exit
from valetkey.config.environment import environment
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError, Refused

_COMMANDS = "valetkey.cli.commands"


class ListedCommand(Struct, frozen=True):
    """One command: its name, its summary, and its heading in the help.

    It is `command` in the module of its name, or one of the `groups` of derived commands.
    """

    name: str
    purpose: str
    heading: str
    derived: bool = False

    def command(self) -> click.Command:
        """Import its module and return it."""
        if self.derived:
            made: click.Command = import_module(f"{_COMMANDS}.groups").group_of(self.name)
        else:
            # A module cannot have the name of a keyword.
            module = f"{self.name}_" if iskeyword(self.name) else self.name
            made = import_module(f"{_COMMANDS}.{module}").command
        if not gc.isenabled():
            # What was imported stays: a collection, also that at the exit, need not look at it.
            gc.freeze()
            gc.enable()
        return made


CORE_COMMANDS = (
    ListedCommand("demo", "run both servers with an example app", "Run"),
    ListedCommand("init", "write a configuration for production, interactively", "Run"),
    ListedCommand("serve", "run both servers, or one of them", "Run"),
    ListedCommand("reload", "reload the configuration of running servers", "Run"),
    ListedCommand("apply", "create and change users and clients from a file", "Run"),
    ListedCommand("export", "write clients, APIs and more as a file for apply", "Run"),
    ListedCommand("client", "register, show, change and disable apps", "Manage"),
    ListedCommand("api", "declare APIs and their access tokens", "Manage", derived=True),
    ListedCommand("registration", "control who may register apps", "Manage", derived=True),
    ListedCommand("user", "create, change and disable users", "Manage", derived=True),
    ListedCommand("group", "manage groups and their members", "Manage", derived=True),
    ListedCommand("settings", "change settings while the servers run", "Manage", derived=True),
    ListedCommand("owner", "a link that makes you the owner, once", "Manage"),
    ListedCommand("brand", "name, color, logo and links of the pages", "Manage"),
    ListedCommand(
        "admin-token",
        "tokens for programs that administer through the API",
        "Manage",
        derived=True,
    ),
    ListedCommand("login", "sign in to an app and print an access token", "Manage"),
    ListedCommand("explain", "why a request was refused, by its reference VK-…", "Manage"),
    ListedCommand("events", "show events: sign-ins, grants, changed objects", "Manage"),
    ListedCommand("doctor", "check the installation for problems", "Maintain"),
    ListedCommand("config", "check the configuration, explain each setting", "Maintain"),
    ListedCommand("database", "migrate, check, back up and copy the databases", "Maintain"),
    ListedCommand("key", "show, rotate, back up and restore keys", "Maintain"),
)
COMMANDS = (
    *CORE_COMMANDS,
    *(
        ListedCommand(name, group.purpose, group.heading or "Manage", derived=True)
        for name, group in catalogue.feature_groups()
    ),
)


def _listed(name: str) -> ListedCommand | None:
    # The plural is accepted: `valetkey users import` as well as `valetkey user import`.
    names = (name, name.removesuffix("s"))
    return next((command for name in names for command in COMMANDS if command.name == name), None)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [listed.name for listed in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        listed = _listed(cmd_name)
        if listed is None:
            return None
        # A shell that completes words waits for each of them.
        command = catalogue.described(listed.name) if ctx.resilient_parsing else None
        return command or listed.command()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        listed = _listed(args[0])
        if listed is None and not args[0].startswith("-"):
            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            right = f"did you mean `valetkey {close[0]}`?" if close else "see `valetkey --help`"
            raise click.UsageError(f"there is no command {args[0]!r}; {right}")
        if listed is not None and not ctx.resilient_parsing:
            catalogue.print_help(ctx, listed.name, args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(listed.name) for listed in COMMANDS)
        for heading in dict.fromkeys(listed.heading for listed in COMMANDS):
            with formatter.section(heading):
                rows = [
                    (f"{row.name:<{width}}", row.purpose)
                    for row in COMMANDS
                    if row.heading == heading
                ]
                formatter.write_dl(rows, col_spacing=4)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    options_metavar="",
    subcommand_metavar="COMMAND …",
    epilog="More on one of them: valetkey COMMAND --help",
)
@click.version_option(package_name="valetkey", message="valetkey %(version)s")
@click.pass_context
def valetkey(context: click.Context) -> None:
    """An OAuth 2 authorization server and OpenID Connect provider."""
    if "NO_COLOR" in environment():
        context.color = False
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the program `valetkey`."""
    # Until the command is imported: that leaves no garbage, and looking for some takes long.
    gc.disable()
    # Under nohup(1), SIGHUP is ignored, and stays so.
    ignored = {
        number for number in interrupts.ENDINGS if signal.getsignal(number) is signal.SIG_IGN
    }
    interrupts.raise_once(numbers=set(interrupts.ENDINGS) - ignored)
    code = run(sys.argv[1:])
    # Only the exit code is left to give, and a signal would replace it.
    signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.ENDINGS)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Every known failure is one sentence."""
    try:
        answer = valetkey.main(list(arguments), prog_name="valetkey", standalone_mode=False)
    except click.UsageError as wrong:
        path = wrong.ctx.command_path if wrong.ctx else "valetkey"
        say.error(wrong.format_message())
        say.note(f"Try: {path} --help")
        return Exit.INVALID
    except click.ClickException as wrong:
        say.error(wrong.format_message())
        return Exit.INVALID
    except OperatorError as error:
        say.error(str(error))
        _name_guide(arguments, error.setting)
        return Exit.INVALID
    except Refused as refused:
        say.error(refused.refusal.description)
        return Exit.INVALID
    except DatabaseUnavailable as reason:
        say.error(f"the database cannot be used: {reason}. Try: valetkey database check")
        _name_guide(arguments, "database")
        return Exit.FAILED
    except (click.Abort, KeyboardInterrupt):
        say.note("Stopped.")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output closed the pipe; Python must not report that at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return answer if isinstance(answer, int) else Exit.OK


def _name_guide(arguments: Sequence[str], setting: str) -> None:
    """Name the page of the documentation that helps, if there is one."""
    address = import_module("valetkey.cli.guides").address_for(arguments, setting)
    if address:
        say.note(f"Documentation: {address}")
