"""`valetkey user import`: check a file of users, import it, and report the outcome of every row."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from valetkey.authorization.actions.admin.import_reasons import explain
from valetkey.authorization.actions.admin.import_report import figures, report
from valetkey.authorization.actions.admin.user_imports import ImportUpload, ImportWork
from valetkey.authorization.model.account.user_import import (
    ImportRow,
    ImportState,
    RowState,
    UserImport,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import options, say
from valetkey.cli.register.services import accounts, confirm
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.cli.say import Exit
from valetkey.config.sections.accounts import AccountSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError

_SHOWN = 20
_PAUSE = 0.05


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check the file only; nothing is changed.")
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the outcome of every row to this CSV file.",
)
@options.yes
@options.config_file
@options.as_json
def import_users(
    file: Path,
    report_file: Path | None,
    config: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Import users from CSV with a heading, a JSON array of objects, or one object on each line.

    The whole file is checked first. Users whose username or email address exists are reported and
    never changed. `password_hash` takes hashes of common formats: see `valetkey user check-hashes`.
    If the import is killed, a running server continues it. Exit status 1 if a row has a fault.

    Example: valetkey user import users.csv --dry-run --report report.csv
    """
    settings = options.settings_of(config)
    content = _content(file, settings.accounts)

    async def run_import(opened: OpenedStore) -> Mapping[str, object]:
        job = _Import(opened, ImportWork(accounts(opened)))
        actor = opened.operator
        import_id = await job.uploads.receive(actor, file.name, content, opened.now)
        try:
            counts = await job.until_done(import_id, "Checking")
            imports = not dry_run and RowState.GOOD in counts
            if imports:
                confirm(_question(counts), yes=yes)
                await job.uploads.move(actor, import_id, ImportState.IMPORTING, job.now)
                counts = await job.until_done(import_id, "Importing")
            problems = await opened.store.scan(
                lambda tx: tx.user_imports.problems(import_id, 0, _SHOWN)
            )
            if report_file is not None:
                with report_file.open("wb") as written:
                    async for piece in report(opened.store, import_id):
                        written.write(piece)
        finally:
            # Also after Ctrl-C or a "no": an upload without a decision is deleted.
            await job.uploads.move(actor, import_id, ImportState.STOPPED, job.now)
            await job.until_done(import_id, "Finishing")
        if not as_json:
            _print_report(counts, problems, imports=imports)
        return {"import_id": import_id, **figures(counts)}

    found = with_store(settings, run_import)
    if as_json:
        say.as_json(found)
    if found["faults"]:
        raise click.exceptions.Exit(Exit.FAILED)


class _Import(Struct, frozen=True):
    """Runs the stages of an import in this process, beside the workers of running servers."""

    opened: OpenedStore
    work: ImportWork

    @property
    def uploads(self) -> ImportUpload:
        """The service that stores the file."""
        runtime, most = self.opened.runtime, self.opened.settings.accounts.import_users
        return ImportUpload(self.opened.store, runtime.random, most)

    @property
    def now(self) -> Instant:
        """The current time."""
        return self.opened.runtime.now()

    async def until_done(self, import_id: str, doing: str) -> Mapping[RowState, int]:
        """Run the current stage of the import. Return how many rows have each outcome."""
        store = self.opened.store
        while True:
            found = await store.read(lambda tx: tx.user_imports.find(import_id))
            if found is None or not found.is_due:
                return await store.scan(lambda tx: tx.user_imports.counts(import_id))
            say.progress(f"{doing}: {found.position} of {found.total} users")
            step = partial(_step, self.work, found, self.now)
            if await store.write(step) is None:
                # The stage has ended, or a server processed this batch.
                await asyncio.sleep(_PAUSE)


def _step(work: ImportWork, found: UserImport, now: Instant, tx: Transaction) -> UserImport | None:
    return work.step(tx, found, now)


def _content(file: Path, settings: AccountSettings) -> bytes:
    most = settings.import_bytes
    with file.open("rb") as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        said = f"the file has more than {settings.import_size} MiB: split it"
        raise OperatorError(said, "accounts.import_size")
    return content


def _question(counts: Mapping[RowState, int]) -> str:
    found = figures(counts)
    return (
        f"Import {found['can_be_imported']} users? "
        f"{found['existing']} exist already, {found['faults']} have a fault."
    )


def _print_report(
    counts: Mapping[RowState, int], rows: Sequence[ImportRow], *, imports: bool
) -> None:
    found = figures(counts)
    first = (
        ("Created", str(found["created"]))
        if imports
        else ("Can be imported", str(found["can_be_imported"]))
    )
    say.fields([first, ("Already exist", str(found["existing"])), ("Faults", str(found["faults"]))])
    if rows:
        say.line()
        cells = [(str(it.line), it.username, it.email, explain(it.reason)) for it in rows]
        say.table(("ROW", "USERNAME", "EMAIL", "REASON"), cells)
        if len(rows) < found["existing"] + found["faults"]:
            say.line(f"The first {len(rows)}; --report FILE has all of them.")
