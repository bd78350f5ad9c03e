"""Operations on imports of users: upload a file, read the result of the check, start or stop."""

from enum import StrEnum
from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.imports.model import (
    ImportRow,
    ImportState,
    RowState,
    UserImport,
    UserImportStarted,
)
from valetkey.authorization.imports.rules.files import FileFault, FileFormat, reasons_of
from valetkey.authorization.imports.rules.users import (
    MOST_KEPT,
    ImportLimit,
    ImportUpload,
    figures,
    move_import,
)
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.operations.operation import (
    PAGING,
    Call,
    Done,
    ListMembers,
    Moment,
    Operation,
    QueryParameter,
    Result,
    Upload,
    UploadedFile,
    limit_of,
    reads,
    writes,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

_ALL = "/users/imports"
_ONE = f"{_ALL}/{{import_id}}"
_FORMATS = {
    "text/csv": FileFormat.CSV,
    "application/json": FileFormat.JSON,
    "application/x-ndjson": FileFormat.NDJSON,
}
_LIMIT, _AFTER = PAGING
_Count = Annotated[int, msgspec.Meta(ge=0)]


class UserImportListed(msgspec.Struct, frozen=True):
    """An import: `done` of `total` users in this stage."""

    import_id: str
    file: str
    state: ImportState
    total: _Count
    done: _Count
    created_at: Moment
    finished_at: Moment | None


class UserImportShown(UserImportListed, frozen=True):
    """An import, and how many users have each outcome."""

    created: _Count
    can_be_imported: _Count
    existing: _Count
    faults: _Count


class UserImportList(msgspec.Struct, frozen=True):
    """Imports, newest first."""

    items: list[UserImportListed]


class UserImportStart(msgspec.Struct, frozen=True):
    """The import of the uploaded file."""

    import_id: str


class ReasonShown(msgspec.Struct, frozen=True):
    """Why a user, or this field of one, is not imported: `""` for the whole row, and the reason."""

    field: str
    detail: str


class ImportRowShown(msgspec.Struct, frozen=True):
    """The outcome for one user; `row` is where an editor or spreadsheet shows it."""

    row: int
    username: str
    email: str
    result: RowState
    reasons: list[ReasonShown]


class ImportRowList(ListMembers, frozen=True):
    """Rows in the order of the file."""

    items: list[ImportRowShown]


class RowFilter(StrEnum):
    """Which rows of an import a list shows; `PROBLEMS` are those with a reason."""

    ALL = "all"
    PROBLEMS = "problems"


async def upload(call: Call) -> Result:
    """Take the file; it is checked in the background, and nothing is imported yet."""
    sent, services = call.input(UploadedFile), call.services
    form = _FORMATS[sent.media]
    name = call.query.get("file", f"users.{form.value}")
    most = services.settings.accounts.import_users
    uploads = ImportUpload(services.store, services.random, most)
    try:
        import_id = await uploads.receive(call.actor, name, sent.content, call.now, form)
    except ImportLimit as error:
        raise Refused.because(ErrorCode.CONFLICT, str(error), "import.open") from None
    except FileFault as error:
        raise Refused.because(ErrorCode.INVALID_REQUEST, str(error), "import.file") from None
    return Result(UserImportStart(import_id))


def list_imports(tx: Transaction, call: Call) -> UserImportList:
    """List imports whose report is kept."""
    del call
    return UserImportList(
        [_listed(user_import) for user_import in UserImports.of(tx).recent(MOST_KEPT)]
    )


def read_import(tx: Transaction, call: Call) -> UserImportShown:
    """Read the progress of one import."""
    user_import = _found(tx, call)
    counts = figures(UserImports.of(tx).counts(user_import.id))
    shown = {**msgspec.structs.asdict(_listed(user_import)), **counts}
    return msgspec.convert(shown, UserImportShown)


def list_rows(tx: Transaction, call: Call) -> Result:
    """List rows with their outcome."""
    user_import, query, limit = _found(tx, call), call.query, limit_of(call.query)
    chosen, after = query.get("show", RowFilter.ALL), int(query.get("cursor", "0"))
    kept = UserImports.of(tx)
    listed = kept.problems if chosen == RowFilter.PROBLEMS else kept.rows
    rows = listed(user_import.id, after, limit + 1)
    more = str(rows[limit - 1].position) if len(rows) > limit else ""
    items = [_row(row) for row in rows[:limit]]
    return Result(ImportRowList(more or None, items), next=more)


def start(tx: Transaction, call: Call) -> bool:
    """Import the users of a checked file. False if it was started already."""
    user_import = _found(tx, call)
    if move_import(tx, call.actor, user_import.id, ImportState.IMPORTING, call.now):
        return True
    state = _found(tx, call).state
    if state in {ImportState.IMPORTING, ImportState.FINISHED}:
        return False
    reason = (
        translatable("this import was stopped; upload the file again")
        if state is ImportState.STOPPED
        else translatable(
            "this file is still being checked; wait until the import's state is checked"
        )
    )
    raise Refused.because(ErrorCode.CONFLICT, reason, "import.state")


def stop(tx: Transaction, call: Call) -> bool:
    """Stop the import, or discard its file. False if it has ended; created users stay."""
    user_import = _found(tx, call)
    return move_import(tx, call.actor, user_import.id, ImportState.STOPPED, call.now)


def _found(tx: Transaction, call: Call) -> UserImport:
    user_import = UserImports.of(tx).find(call.named("import_id"))
    if user_import is None:
        raise Refused.because(ErrorCode.NOT_FOUND, "this import does not exist", "import.unknown")
    return user_import


def _listed(user_import: UserImport) -> UserImportListed:
    return UserImportListed(
        import_id=user_import.id,
        file=user_import.file,
        state=user_import.state,
        total=user_import.total,
        done=user_import.position,
        created_at=user_import.created_at,
        finished_at=user_import.finished_at,
    )


def _row(row: ImportRow) -> ImportRowShown:
    reasons = [ReasonShown(reason.field, reason.explain()) for reason in reasons_of(row.reason)]
    return ImportRowShown(row.line, row.username, row.email, row.state, reasons)


IMPORTS = (
    Operation(
        "list_user_imports",
        "GET",
        _ALL,
        Permission.USERS,
        "Imports of users, newest first",
        reads(list_imports),
        output=UserImportList,
        commands=(),
    ),
    Operation(
        "create_user_import",
        "POST",
        _ALL,
        Permission.USERS,
        "Upload a file of users; it is checked, and nothing is imported yet",
        upload,
        description=(
            "CSV with a heading, a JSON array of objects, or one object on each line, as in the "
            "guide to imports. The file is checked in the background: read the import until its "
            "state is `checked`. That is a dry run; start the import to create the users. The "
            "largest size and number of users are `accounts.import_size` and "
            "`accounts.import_users`. At most five imports may be unfinished (409)."
        ),
        upload=Upload(
            {
                "text/csv": {"type": "string"},
                "application/json": {"type": "array", "minItems": 1, "items": {}},
                "application/x-ndjson": {"type": "string"},
            },
            lambda settings: settings.accounts.import_bytes,
        ),
        output=UserImportStart,
        status=202,
        error_statuses=(409, 415),
        query=(
            QueryParameter(
                "file",
                "The name of the file, as lists of imports show it.",
                {"type": "string", "minLength": 1, "maxLength": 200},
            ),
        ),
        commands=(),
    ),
    Operation(
        "read_user_import",
        "GET",
        _ONE,
        Permission.USERS,
        "One import: its state, progress and figures",
        reads(read_import),
        description=(
            "Imports are deleted seven days after their end, undecided ones after a day. At most "
            "the newest hundred are kept."
        ),
        output=UserImportShown,
        commands=(),
    ),
    Operation(
        "list_user_import_rows",
        "GET",
        f"{_ONE}/rows",
        Permission.USERS,
        "The rows of an import, each with its outcome and the reasons",
        reads(list_rows),
        output=ImportRowList,
        query=(
            QueryParameter("show", "Only these rows.", {"type": "string", "enum": list(RowFilter)}),
            _LIMIT,
            replace(_AFTER, schema={"type": "integer", "minimum": 0, "maximum": 1_000_000}),
        ),
        returns_list=True,
        commands=(),
    ),
    Operation(
        "start_user_import",
        "POST",
        f"{_ONE}/start",
        Permission.USERS,
        "Import the users of a checked file",
        writes(start),
        description=(
            "In the background, each user checked again. It stops when the account or the role of "
            "the token's user ends. Rows show `created` once the account exists."
        ),
        output=Done,
        error_statuses=(409,),
        event=UserImportStarted,
        commands=(),
    ),
    Operation(
        "stop_user_import",
        "POST",
        f"{_ONE}/stop",
        Permission.USERS,
        "Stop an import, or discard its file; created users stay",
        writes(stop),
        output=Done,
        commands=(),
    ),
)
