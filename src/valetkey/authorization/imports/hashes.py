"""`valetkey user check-hashes`: say before an import which password hashes cannot work."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct

from valetkey.authorization.actions.admin.import_file import decode, format_of, read_file
from valetkey.authorization.actions.admin.import_reasons import reasons_of
from valetkey.authorization.actions.admin.user_imports import hash_fault
from valetkey.authorization.authentication.password_formats import read_hash
from valetkey.authorization.model.account.user_import import ImportRow, RowState
from valetkey.authorization.protocol.register.reasons import Reason
from valetkey.cli import options, say
from valetkey.cli.say import Exit

_SHOWN = 100


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
    for found in _rows(file):
        count += 1
        if found.reason is not None:
            faults.append(found)
        elif found.format:
            formats[found.format] += 1
        else:
            without += 1
    if as_json:
        problems = [_told(each) for each in faults]
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
        wanted = decode(form.rows, row.data)
        if isinstance(wanted, Reason):
            yield _Found(row, reason=wanted)
        elif fault := hash_fault(wanted):
            yield _Found(row, reason=fault)
        else:
            text = wanted.password_hash
            yield _Found(row, read_hash(text).format if text else "")


def _told(found: _Found) -> dict[str, object]:
    row, why = found.row, _explained(found)
    return {"row": row.line, "username": row.username, "email": row.email, "reason": why}


def _explained(found: _Found) -> str:
    if found.reason is None:
        return ""
    field, text = found.reason.field, found.reason.explain()
    return f"{field}: {text}" if field else text


def _print_faults(faults: list[_Found]) -> None:
    if not faults:
        return
    say.line()
    cells = [(str(it.row.line), it.row.username, it.row.email, _explained(it)) for it in faults]
    say.table(("ROW", "USERNAME", "EMAIL", "REASON"), cells[:_SHOWN])
    if len(faults) > _SHOWN:
        say.line(f"The first {_SHOWN}; --json has all of them.")
