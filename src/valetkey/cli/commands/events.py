"""`valetkey events`: the audit logs of both servers."""

import asyncio
import csv
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from valetkey.authorization.actions.admin.events import harmless
from valetkey.cli import options, say
from valetkey.cli.register.logs import read_logs
from valetkey.cli.register.moments import shown
from valetkey.cli.register.store import is_begun
from valetkey.cli.say import Exit
from valetkey.config.agreement import servers
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Mistake

_USUAL = 50
_MOST = 10_000


@click.command()
@click.option("--after", metavar="ID|DAY", help="Those behind this event, or from 2026-03-01 on.")
@click.option("--object", "object_", metavar="NAME", help="Only of objects such as notes.")
@click.option(
    "--limit", type=click.IntRange(1, _MOST), default=_USUAL, help=f"At most so many; {_USUAL}."
)
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, for spreadsheets.")
@options.config_file
@options.as_json
def command(
    after: str | None,
    object_: str | None,
    limit: int,
    as_csv: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """What happened at both servers: who signed in, what was granted, which objects were changed.

    Without --after, the newest. Days are those of UTC. What each event means stands in
    docs/reference/events.md. An event has the time of its request and is written when its change
    is: who follows the log reads the last seconds again, and knows each event by its id.

    Example: valetkey events --object notes --after 2026-03-01
    """
    settings = options.settings_of(config)
    begun = any(is_begun(settings, server) for _, server in servers(settings))
    if settings.source.file is None and not begun:
        raise Mistake("there is no database here; name the configuration with --config FILE")
    found = asyncio.run(
        read_logs(settings, None if after is None else _place(after), limit, object_ or "")
    )
    if as_csv:
        written = csv.writer(sys.stdout, lineterminator="\n")
        written.writerow(("id", "server", "at", "name", "done_by", "data"))
        for event in found:
            data = json.dumps(event.data, separators=(",", ":"))
            told = (event.id, event.server, str(event.at), event.name, event.done_by, data)
            written.writerow([harmless(each) for each in told])
        return Exit.OK
    if as_json:
        say.as_json(
            [
                {
                    "id": event.id,
                    "server": event.server,
                    "at": event.at,
                    "name": event.name,
                    "done_by": event.done_by,
                    **event.data,
                }
                for event in found
            ]
        )
        return Exit.OK
    if not found:
        say.note("There is none.")
        return Exit.OK
    rows = [
        (shown(event.at), event.id, event.name, event.done_by, _said(event.data)) for event in found
    ]
    say.table(("WHEN", "ID", "EVENT", "DONE BY", "WITH"), rows)
    return Exit.OK


def _place(after: str) -> str | Instant:
    try:
        day = datetime.strptime(after, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return after
    return Instant(int(day.timestamp()))


def _said(data: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in data.items() if value is not None)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(each) for each in cast("list[object]", value))
    return str(value)
