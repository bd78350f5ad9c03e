"""The report of an import: a CSV file with the outcome of every row."""

import csv
from collections.abc import AsyncGenerator, Sequence
from io import StringIO

from valetkey.authorization.model.account.user_import import ImportRow, RowState
from valetkey.authorization.storage.transaction import Store

_CHUNK = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_RESULTS = {
    RowState.WAITING: "not checked",
    RowState.GOOD: "can be imported",
    RowState.FAULTY: "fault",
    RowState.EXISTS: "already exists",
    RowState.CREATED: "created",
}


async def report(store: Store, import_id: str) -> AsyncGenerator[bytes]:
    """Yield the report in pieces: row, username, email, result and reason."""
    yield _csv([("row", "username", "email", "result", "reason")])
    after = 0
    while rows := await _rows(store, import_id, after):
        after = rows[-1].position
        yield _csv(
            [(str(it.line), it.username, it.email, _RESULTS[it.state], it.reason) for it in rows]
        )


async def _rows(store: Store, import_id: str, after: int) -> Sequence[ImportRow]:
    return await store.scan(lambda tx: tx.user_imports.rows(import_id, after, _CHUNK))


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    written = StringIO()
    csv.writer(written).writerows([_harmless(cell) for cell in line] for line in lines)
    return written.getvalue().encode()


def _harmless(cell: str) -> str:
    # A spreadsheet would compute it.
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
