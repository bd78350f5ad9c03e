"""The report of an import: a CSV file with the outcome of every row."""

import csv
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from io import StringIO

from valetkey.authorization.actions.admin.events import escape_formula
from valetkey.authorization.actions.admin.import_reasons import explain
from valetkey.authorization.model.account.user_import import ImportRow, RowState
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.words import translatable

_CHUNK = 500
_RESULTS = {
    RowState.WAITING: translatable("not checked"),
    RowState.GOOD: translatable("can be imported"),
    RowState.FAULTY: translatable("fault"),
    RowState.EXISTS: translatable("already exists"),
    RowState.CREATED: translatable("created"),
}
_HEADING = (
    translatable("row"),
    translatable("username"),
    translatable("email"),
    translatable("result"),
    translatable("reason"),
)


def figures(counts: Mapping[RowState, int]) -> Mapping[str, int]:
    """Return how many users have each outcome, by the names that programs see."""
    return {
        "created": counts.get(RowState.CREATED, 0),
        "can_be_imported": counts.get(RowState.GOOD, 0),
        "existing": counts.get(RowState.EXISTS, 0),
        "faults": counts.get(RowState.FAULTY, 0),
    }


async def report(
    store: Store,
    import_id: str,
    gettext: Callable[[str], str] = str,
) -> AsyncGenerator[bytes]:
    """Yield the report in pieces: row, username, email, result and reason.

    `gettext` translates its words and the reasons.
    """
    yield _csv([[gettext(name) for name in _HEADING]])
    after = 0
    while rows := await _rows(store, import_id, after):
        after = rows[-1].position
        yield _csv(
            [
                (
                    *(str(it.line), it.username, it.email),
                    *(gettext(_RESULTS[it.state]), explain(it.reason, gettext)),
                )
                for it in rows
            ]
        )


async def _rows(store: Store, import_id: str, after: int) -> Sequence[ImportRow]:
    return await store.scan(lambda tx: tx.user_imports.rows(import_id, after, _CHUNK))


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    written = StringIO()
    csv.writer(written).writerows([escape_formula(cell) for cell in line] for line in lines)
    return written.getvalue().encode()
