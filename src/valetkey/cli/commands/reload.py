"""`valetkey reload`: running servers read their configuration again."""

import os
import signal
from pathlib import Path

import click

from valetkey.cli import options, say
from valetkey.cli.say import Exit
from valetkey.cli.serving import folder
from valetkey.cli.serving.recheck import fixed, require_right
from valetkey.config.agreement import servers
from valetkey.config.paths import supervisor_of
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import OperatorError


@click.command()
@options.config_file
@options.config_folder
def command(config: Path | None, configs: Path | None) -> int:
    """Make running servers read their configuration again, without an interruption.

    Each worker is replaced by one that has read the file: settings, certificates, theme, declared
    objects. If the file has errors, nothing changes. Addresses, the number of workers, databases
    and keys need a restart. Equivalent to SIGHUP to the process of `valetkey serve`.

    With `--configs FOLDER`, issuers whose file is new or changed are started with it, and those
    whose file is gone are stopped; the others go on. One with errors stays as it was.

    Exit code 0 if the servers were signalled, 2 if there are errors to fix first.

    Example: valetkey reload --config /etc/valetkey/valetkey.toml
    """
    if configs is not None:
        return _reload_several(configs)
    settings = options.settings_of(config)
    running = {process: names for process, names in _running(settings).items() if names}
    if not running:
        raise OperatorError(
            "no server runs here with this configuration; where it runs under another user or in a "
            "container, send SIGHUP to the process of `valetkey serve`"
        )
    for process, names in running.items():
        require_right(settings, fixed(settings, names))
        os.kill(process, signal.SIGHUP)
        say.line(
            f"{' and '.join(names)}: asked to reload (process {process}); the log has the result"
        )
    return Exit.OK


def _reload_several(directory: Path) -> int:
    configurations = folder.read(directory)
    running: set[int] = set()
    wrong = False
    for configuration in configurations:
        for problem in folder.problems(configuration):
            wrong = True
            say.error(f"issuer {configuration.name} stays as it is: {problem}")
        if configuration.settings is not None:
            running |= _running(configuration.settings).keys()
    if not running:
        raise OperatorError(
            f"no server runs here with the configurations in {directory}", "--configs"
        )
    for process in running:
        os.kill(process, signal.SIGHUP)
        say.line(f"asked to reload (process {process}); the log has the result")
    return Exit.INVALID if wrong else Exit.OK


def _running(settings: Settings) -> dict[int, list[str]]:
    processes: dict[int, list[str]] = {}
    for name, server in servers(settings):
        if process := supervisor_of(settings, server):
            processes.setdefault(process, []).append(name)
    return processes
