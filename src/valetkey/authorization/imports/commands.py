"""Commands: `valetkey import`, `valetkey user import` and `valetkey user check-hashes`."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from valetkey.authorization.authentication.password_formats import read_hash
from valetkey.authorization.imports.model import ImportRow, ImportState, RowState
from valetkey.authorization.imports.rules.files import (
    Json,
    decode,
    explain,
    format_of,
    read_file,
    reasons_of,
)
from valetkey.authorization.imports.rules.keycloak import Converted, convert, realm_of
from valetkey.authorization.imports.rules.users import (
    ImportUpload,
    ImportWork,
    figures,
    hash_fault,
    report,
)
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.protocol.register.faults import Reason
from valetkey.cli import options, say
from valetkey.cli.applying.export import toml_tables
from valetkey.cli.applying.file import MEGABYTES
from valetkey.cli.register.store import OpenedStore, accounts, confirm, with_store
from valetkey.cli.say import Exit
from valetkey.config.sections.people import AccountSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_SHOWN = 20
_MOST_FAULTS = 100
_PAUSE = 0.05
_LARGEST = 256 << 20
_LARGEST_USERS = 7 << 20
_MOST_USERS = 20_000
"""What one file of an import may have by default."""


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE…",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="FOLDER",
    help="Write the files to this folder. Default: the current one.",
)
@click.option("--force", is_flag=True, help="Replace files of an earlier conversion.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def keycloak(files: Sequence[Path], output: Path, *, force: bool, as_json: bool) -> None:
    """Convert the export of a Keycloak realm: clients, roles, groups, and users with their hashes.

    FILE is what `kc.sh export` or the console writes; several files are parts of one realm. Writes
    users.json for `valetkey user import`, then apply.toml for `valetkey apply`. Both contain
    secrets. No server and no database is used. What is left out or changed is listed with the
    reason.

    Example: valetkey import keycloak acme-realm.json --output acme
    """
    realm = realm_of([_document(file) for file in files])
    if realm is None:
        raise OperatorError("this is no export of one Keycloak realm")
    made = convert(realm, SYSTEM.random)
    contents = dict(_contents(made))
    output.mkdir(parents=True, exist_ok=True)
    there = [str(output / name) for name in contents if (output / name).exists()]
    if there and not force:
        raise OperatorError(f"{', '.join(there)} exists; add --force to replace it")
    for name, content in contents.items():
        _write(output / name, content)
    if as_json:
        left = [{"what": omission.item, "reason": omission.reason} for omission in made.left_out]
        counts = {kind: made.count(kind) for kind in ("clients", "groups")}
        paths = [str(output / name) for name in contents]
        say.as_json(
            {
                "realm": made.realm,
                "users": len(made.users),
                **counts,
                "files": paths,
                "left_out": left,
            }
        )
        return
    _print(made, output, contents)


def _document(file: Path) -> object:
    with file.open("rb") as opened:
        content = opened.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OperatorError(
            f"{file} has more than {_LARGEST >> 20} MiB: export users to several files"
        )
    try:
        return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError):
        raise OperatorError(f"{file} is not JSON") from None


def _contents(made: Converted) -> Iterator[tuple[str, bytes]]:
    pieces = list(_pieces(made.users))
    for number, rows in enumerate(pieces, 1):
        name = "users.json" if len(pieces) == 1 else f"users-{number}.json"
        yield name, b"[\n" + b",\n".join(rows) + b"\n]\n"
    yield "apply.toml", toml_tables(made.tables).encode()


def _pieces(users: Sequence[Json]) -> Iterator[Sequence[bytes]]:
    """Yield the rows in as many pieces as one import takes."""
    rows: list[bytes] = []
    size = 0
    for user in users:
        row = msgspec.json.encode(user)
        if rows and (len(rows) == _MOST_USERS or size + len(row) > _LARGEST_USERS):
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += len(row) + 2
    if rows:
        yield rows


def _write(path: Path, content: bytes) -> None:
    # It contains secrets: no other user may read it, not even for a moment.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(content)


def _print(made: Converted, output: Path, contents: dict[str, bytes]) -> None:
    say.fields(
        [
            ("Realm", made.realm),
            ("Users", str(len(made.users))),
            ("Groups", str(made.count("groups"))),
            ("Clients", str(made.count("clients"))),
        ]
    )
    if made.left_out:
        say.line()
        say.table(
            ("LEFT OUT OR CHANGED", "REASON"),
            [(omission.item, omission.reason) for omission in made.left_out],
        )
    say.line()
    for name in contents:
        does = "apply" if name.endswith(".toml") else "user import"
        say.line(f"valetkey {does} {output / name}")
    if len(contents["apply.toml"]) > MEGABYTES << 20:
        say.note(f"apply.toml has more than {MEGABYTES} MiB: divide it before you apply it.")


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
                lambda tx: UserImports.of(tx).problems(import_id, 0, _SHOWN)
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

    result = with_store(settings, run_import)
    if as_json:
        say.as_json(result)
    if result["faults"]:
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
            user_import = await store.read(lambda tx: UserImports.of(tx).find(import_id))
            if user_import is None or not user_import.is_due:
                return await store.scan(lambda tx: UserImports.of(tx).counts(import_id))
            say.progress(f"{doing}: {user_import.position} of {user_import.total} users")
            step = partial(self.work.step, user_import=user_import, now=self.now)
            if await store.write(step) is None:
                # The stage has ended, or a server processed this batch.
                await asyncio.sleep(_PAUSE)


def _content(file: Path, settings: AccountSettings) -> bytes:
    most = settings.import_bytes
    with file.open("rb") as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        reason = f"the file has more than {settings.import_size} MiB: split it"
        raise OperatorError(reason, "accounts.import_size")
    return content


def _question(counts: Mapping[RowState, int]) -> str:
    numbers = figures(counts)
    return (
        f"Import {numbers['can_be_imported']} users? "
        f"{numbers['existing']} exist already, {numbers['faults']} have a fault."
    )


def _print_report(
    counts: Mapping[RowState, int], rows: Sequence[ImportRow], *, imports: bool
) -> None:
    numbers = figures(counts)
    first = (
        ("Created", str(numbers["created"]))
        if imports
        else ("Can be imported", str(numbers["can_be_imported"]))
    )
    say.fields(
        [first, ("Already exist", str(numbers["existing"])), ("Faults", str(numbers["faults"]))]
    )
    if rows:
        say.line()
        cells = [(str(it.line), it.username, it.email, it.state, explain(it.reason)) for it in rows]
        say.table(("ROW", "USERNAME", "EMAIL", "RESULT", "REASON"), cells)
        if len(rows) == _SHOWN or len(rows) < numbers["existing"] + numbers["faults"]:
            say.line(f"The first {len(rows)}; --report FILE has all of them.")


class _Found(Struct, frozen=True):
    """A row: the format of its hash, "" if it has none, and the reason if it cannot work."""

    row: ImportRow
    format: str = ""
    reason: Reason | None = None


@click.command("check-hashes")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.as_json
def check_hashes(file: Path, *, as_json: bool) -> None:
    """Check the password hashes of a file of users: which can be verified, and which cannot.

    FILE is one for `valetkey user import`, of any size. No configuration and no database are read,
    and no hash is printed. Exit status 1 if a user of the file could not sign in.

    Example: valetkey user check-hashes users.csv
    """
    formats: Counter[str] = Counter()
    faults: list[_Found] = []
    count = without = 0
    for checked_row in _rows(file):
        count += 1
        if checked_row.reason is not None:
            faults.append(checked_row)
        elif checked_row.format:
            formats[checked_row.format] += 1
        else:
            without += 1
    if as_json:
        problems = [_told(fault) for fault in faults]
        say.as_json(
            {"users": count, "formats": dict(formats), "without": without, "problems": problems}
        )
    else:
        named = [(name, str(number)) for name, number in formats.most_common()]
        last = [("Without a hash", str(without)), ("Cannot work", str(len(faults)))]
        say.fields([("Users", str(count)), *named, *last])
        _print_faults(faults)
    if faults:
        raise click.exceptions.Exit(Exit.FAILED)


def _rows(file: Path) -> Iterator[_Found]:
    content = file.read_bytes()
    form = format_of(file.name, content)
    # As many as the file has: each takes more than one byte.
    for row in read_file(form, content, len(content)):
        if row.state is RowState.FAULTY:
            yield _Found(row, reason=reasons_of(row.reason)[0])
            continue
        imported = decode(form.rows, row.data)
        if isinstance(imported, Reason):
            yield _Found(row, reason=imported)
        elif fault := hash_fault(imported[0]):
            yield _Found(row, reason=fault)
        else:
            text = imported[0].password_hash
            yield _Found(row, read_hash(text).format if text else "")


def _told(checked_row: _Found) -> dict[str, object]:
    row, why = checked_row.row, _explained(checked_row)
    return {"row": row.line, "username": row.username, "email": row.email, "reason": why}


def _explained(checked_row: _Found) -> str:
    if checked_row.reason is None:
        return ""
    field, text = checked_row.reason.field, checked_row.reason.explain()
    return f"{field}: {text}" if field else text


def _print_faults(faults: list[_Found]) -> None:
    if not faults:
        return
    say.line()
    cells = [(str(it.row.line), it.row.username, it.row.email, _explained(it)) for it in faults]
    say.table(("ROW", "USERNAME", "EMAIL", "REASON"), cells[:_MOST_FAULTS])
    if len(faults) > _MOST_FAULTS:
        say.line(f"The first {_MOST_FAULTS}; --json has all of them.")


COMMANDS: Mapping[str, tuple[click.Command, ...]] = {
    "import": (keycloak,),
    "user": (import_users, check_hashes),
}
"""The commands by their group."""
