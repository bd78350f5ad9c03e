"""`valetkey doctor`: find problems before users do."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click
from msgspec.structs import asdict

from valetkey.authorization.actions.inspection.check import Level
from valetkey.authorization.actions.inspection.inspector import on_machine, over_network
from valetkey.authorization.site.documentation import address_of
from valetkey.cli import options, say
from valetkey.cli.doctoring import (
    CheckResult,
    canary_in,
    check_reachability,
    databases,
    error,
    from_shared,
    needed_servers,
    ok,
    problems_of,
    warning,
)
from valetkey.cli.say import Exit
from valetkey.config.agreement import servers
from valetkey.config.load import OperatorErrors
from valetkey.config.settings import Settings
from valetkey.kernel.runtime import SYSTEM

_MARK = {
    Level.OK: ("ok     ", "green"),
    Level.WARNING: ("warning", "yellow"),
    Level.ERROR: ("error  ", "red"),
}


@click.command()
@click.option(
    "--logs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A log, or a folder of them, in which to look for the canary; may be repeated.",
)
@options.config_file
@options.as_json
def command(logs: tuple[Path, ...], config: Path | None, as_json: bool) -> int:
    """Check the installation for common problems, and print how to fix each.

    Checks the configuration, disk, open files, file modes, databases and standbys, clocks, keys,
    certificates, the mail server, other servers in use, clients with risky settings, and whether a
    secret in a query string appears in a log. Changes nothing except one row that tests whether
    the database accepts writes.

    The console's overview shows the same findings, in the same sentences. Only this command checks
    the configuration, usernames, the resource server's database, public URLs, proxies, other
    servers in use and logs: these findings have "console": false in JSON.

    Exit code 1 if there is an error.

    Example: valetkey doctor --logs /var/log/nginx
    """
    findings: list[CheckResult] = []
    settings = _settings(config)

    async def examine() -> None:
        async for finding in _everything(settings, logs):
            findings.append(finding)
            if not as_json:
                _show(finding, settings if isinstance(settings, Settings) else Settings())

    asyncio.run(examine())
    count = {level: sum(finding.level is level for finding in findings) for level in Level}
    if as_json:
        say.as_json(
            {"ok": not count[Level.ERROR], "findings": [asdict(finding) for finding in findings]}
        )
    else:
        say.line()
        say.line(
            f"{count[Level.OK]} ok, warnings: {count[Level.WARNING]}, errors: {count[Level.ERROR]}"
        )
        if shell := sum(
            not finding.console and finding.level is not Level.OK for finding in findings
        ):
            say.line(f"Found by this command only, and not on the console's overview: {shell}")
    return Exit.FAILED if count[Level.ERROR] else Exit.OK


def _settings(config: Path | None) -> Settings | OperatorErrors:
    try:
        return options.settings_of(config)
    except OperatorErrors as errors:
        return errors


async def _everything(
    settings: Settings | OperatorErrors, logs: tuple[Path, ...]
) -> AsyncIterator[CheckResult]:
    if isinstance(settings, OperatorErrors):
        for problem in settings.problems:
            yield error("configuration", str(problem))
        return
    for finding in _configuration(settings):
        yield finding
    for shared_finding in on_machine(settings, SYSTEM.now()):
        yield from_shared(shared_finding)
    async for finding in databases(settings):
        yield finding
    for shared_finding in await over_network(settings):
        yield from_shared(shared_finding)
    async for finding in check_reachability(settings):
        yield finding
    async for finding in needed_servers(settings):
        yield finding
    async for finding in canary_in(settings, logs):
        yield finding


def _configuration(settings: Settings) -> Iterator[CheckResult]:
    problems = list(problems_of(settings))
    for problem in problems:
        yield error("configuration", str(problem))
    if not problems:
        yield ok("configuration", str(settings.source.file or "every default"))
    cores = os.cpu_count() or 1
    for name, server in servers(settings):
        if server.workers > cores:
            observation = f"{server.workers} workers on {cores} cores"
            yield warning(
                f"{name} server", observation, "More than one for each core does not help."
            )


def _show(finding: CheckResult, settings: Settings) -> None:
    mark, colour = _MARK[finding.level]
    say.line(f"{say.coloured(mark, colour)}  {say.strong(finding.about)}: {finding.found}")
    if finding.next:
        say.line(f"         {finding.next}")
    if finding.page and finding.level is not Level.OK:
        address = address_of(finding.page, settings.docs.url, settings.authorization.url)
        if address:
            say.line(f"         {address}")
