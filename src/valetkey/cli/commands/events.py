"""`valetkey events`: the audit logs of both servers."""

import asyncio
import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TypeVar, cast

import click
import msgspec

from valetkey.authorization.actions.admin.audit import (
    MOST_FAULTS,
    EventOutcome,
    VerificationResult,
    escape_formula,
    subject_rule,
    verify,
    with_outcome,
    with_subject,
)
from valetkey.authorization.features import KINDS
from valetkey.authorization.model.event.chain import Checkpoint, checkpoint, checkpoint_key
from valetkey.authorization.storage.search import EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.options import shown
from valetkey.cli.register.logs import read_logs, read_matching
from valetkey.cli.register.store import OpenedStore, api_named, is_begun, user_named, with_store
from valetkey.cli.say import Exit
from valetkey.config.agreement import servers
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant, written
from valetkey.kernel.refusal import OperatorError

T = TypeVar("T")
_USUAL = 50
_AT_ONCE = 10_000


@click.group(invoke_without_command=True)
@click.option("--after", metavar="ID|DAY", help="Events after this one, or from this day on.")
@click.option("--object", "object_", metavar="NAME", help="Only of objects such as notes.")
@click.option(
    "--subject",
    metavar="KIND[:ID]",
    help="Only about this object, such as group:printers or user:ada, or any of a kind, such as "
    "group.",
)
@click.option(
    "--outcome",
    type=click.Choice([outcome.value for outcome in EventOutcome]),
    help="Only what failed, or the rest.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, _AT_ONCE),
    default=_USUAL,
    help=f"Maximum number of events; {_USUAL} by default.",
)
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, for spreadsheets.")
@options.config_file
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    after: str | None,
    object_: str | None,
    subject: str | None,
    outcome: str | None,
    limit: int,
    as_csv: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Show the events of both servers: sign-ins, grants, changed objects.

    Without --after, the newest. Days are in UTC. docs/reference/events.md explains each event. An
    event has the time of its request and is written with its change: a program that follows the log
    must read the last seconds again, and can tell events apart by id. With --subject or --outcome,
    the newest events of the authorization server that match.

    Example: valetkey events --object notes --after 2026-03-01
    """
    if context.invoked_subcommand is not None:
        return Exit.OK
    settings = options.settings_of(config)
    begun = any(is_begun(settings, server) for _, server in servers(settings))
    if settings.source.file is None and not begun:
        raise OperatorError("there is no database here; name the configuration with --config FILE")
    start = None if after is None else _place(after)
    if subject or outcome:
        if object_:
            raise OperatorError("--object cannot be combined with --subject or --outcome")
        criteria = _matching(_identified(settings, subject or ""), outcome or "")
        events = asyncio.run(read_matching(settings, start, limit, criteria))
    else:
        events = asyncio.run(read_logs(settings, start, limit, object_ or ""))
    if as_csv:
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerow(("id", "server", "at", "name", "done_by", "data", "ip_address", "browser"))
        for event in events:
            data = json.dumps(event.data, separators=(",", ":"))
            cells = (
                event.id,
                event.server,
                written(event.at),
                event.name,
                event.done_by,
                data,
                event.ip_address,
                event.browser,
            )
            table.writerow([escape_formula(cell) for cell in cells])
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
                    "ip_address": event.ip_address,
                    "browser": event.browser,
                    **event.data,
                }
                for event in events
            ]
        )
        return Exit.OK
    if not events:
        say.note("There is none.")
        return Exit.OK
    rows = [
        (
            shown(event.at),
            event.id,
            event.name,
            event.done_by,
            event.ip_address,
            _format_data(event.data),
        )
        for event in events
    ]
    say.table(("WHEN", "ID", "EVENT", "DONE BY", "FROM", "WITH"), rows)
    return Exit.OK


@command.command("verify")
@click.option(
    "--checkpoints",
    type=click.File("rb"),
    metavar="FILE",
    help="Checkpoints stored elsewhere, one JSON object per line; - for standard input.",
)
@options.config_file
@options.as_json
def verify_chain(checkpoints: IO[bytes] | None, config: Path | None, as_json: bool) -> int:
    """Verify the hash chain of the authorization server's audit log.

    Names every event that was removed, changed or inserted. A log that was cut off at its end is
    found only with a checkpoint stored elsewhere. Exit code 1 if something is wrong.

    Example: valetkey events verify --checkpoints checkpoints.jsonl
    """
    stored_checkpoints: Sequence[Checkpoint] = (
        [] if checkpoints is None else _checkpoints(checkpoints.read())
    )
    verdict = with_store(options.settings_of(config), partial(_verify, stored_checkpoints))
    head = verdict.head
    if as_json:
        say.as_json(
            {
                "ok": verdict.is_whole,
                "blocks": verdict.blocks,
                "events": verdict.events,
                "expired": verdict.expired,
                "not_chained_since": verdict.waiting,
                "newest_block": None if head is None else {"block": head.number, "at": head.at},
                "faults": [
                    {"kind": fault.kind, "what": fault.record_id, "detail": fault.detail}
                    for fault in verdict.faults
                ],
            }
        )
        return Exit.OK if verdict.is_whole else Exit.FAILED
    for fault in verdict.faults:
        say.line(f"{say.coloured(fault.kind, 'red')}  {fault.record_id}: {fault.detail}")
    if len(verdict.faults) >= MOST_FAULTS:
        say.line(f"Stopped after {MOST_FAULTS} errors.")
    summary = (
        f"{verdict.events} events in {verdict.blocks} blocks, {verdict.expired} of them expired"
    )
    say.line(summary if head is None else f"{summary}; the newest block is of {shown(head.at)}")
    if verdict.waiting is not None:
        say.line(f"Events since {shown(verdict.waiting)} are not in the chain yet.")
    return Exit.OK if verdict.is_whole else Exit.FAILED


@command.command("checkpoint")
@options.config_file
def print_checkpoint(config: Path | None) -> int:
    """Print the newest checkpoint of the audit log as one line of JSON; store it elsewhere.

    Example: valetkey events checkpoint
    """
    newest_checkpoint = with_store(options.settings_of(config), _newest_checkpoint)
    if newest_checkpoint is None:
        say.note("There is no block yet: the server appends one within seconds of its start.")
        return Exit.FAILED
    say.line(msgspec.json.encode(newest_checkpoint).decode())
    return Exit.OK


async def _verify(checkpoints: Sequence[Checkpoint], opened: OpenedStore) -> VerificationResult:
    return await verify(opened.store, _public(opened), checkpoints)


async def _newest_checkpoint(opened: OpenedStore) -> Checkpoint | None:
    block = await opened.store.scan(lambda tx: tx.audit_chain.head())
    return None if block is None else checkpoint(block, _public(opened))


def _public(opened: OpenedStore) -> str:
    return checkpoint_key(opened.keyring.fingerprint_key).public


def _checkpoints(text: bytes) -> Sequence[Checkpoint]:
    try:
        return [msgspec.json.decode(line, type=Checkpoint) for line in text.splitlines() if line]
    except msgspec.DecodeError as problem:
        raise OperatorError(f"this is not a file of checkpoints: {problem}") from None


def _identified(settings: Settings, subject: str) -> str:
    """Return the subject with the uid of a user, and the id of an API, that it has by name."""
    kind, _, name = subject.partition(":")
    if kind == "user" and name and not name.isdigit():
        return f"user:{_named(settings, partial(user_named, name=name)).uid}"
    if kind == "api" and "://" in name:
        return f"api:{_named(settings, partial(api_named, name=name)).id}"
    return subject


def _named(settings: Settings, find: Callable[[Transaction], T]) -> T:
    return with_store(settings, lambda opened: opened.store.read(find))


def _matching(subject: str, outcome: str) -> EventFilter:
    criteria = with_subject(EventFilter(), subject, KINDS)
    if criteria is None:
        raise OperatorError(f'"{subject}" is not known; write {subject_rule(KINDS)}')
    return with_outcome(criteria, outcome, KINDS)


def _place(after: str) -> str | Instant:
    try:
        day = datetime.strptime(after, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return after
    return Instant(int(day.timestamp()))


def _format_data(data: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in data.items() if value is not None)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in cast("list[object]", value))
    return str(value)
