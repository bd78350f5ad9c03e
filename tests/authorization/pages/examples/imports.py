"""Examples of the pages that import users."""

from collections.abc import Mapping

from tests.authorization.pages.examples.people import HOSTILE
from valetkey.authorization.imports.model import (
    ImportKind,
    ImportRow,
    ImportState,
    RowState,
    UserImport,
)
from valetkey.authorization.imports.pages import import_form, state_page
from valetkey.authorization.imports.rules.files import stored_reasons
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.event.event import CLI
from valetkey.authorization.protocol.register.faults import Reason, reason
from valetkey.authorization.site.admin.object_page import ObjectPage
from valetkey.config.sections.people import AccountSettings
from valetkey.kernel.moment import Instant

_NOW = Instant(1_800_000_000)


def _import(state: ImportState, file: str = "customers-2026.csv", done: int = 0) -> UserImport:
    made = Instant(_NOW - 90 * (1 + len(state)))
    return UserImport(
        "im_aLK10lrmv1k2fsuxsIlNQs", None, CLI, file, ImportKind.CSV, state, 1_204, done, made
    )


_RECENT = tuple(
    _import(state, file)
    for state in ImportState
    for file in ("customers-2026.csv", HOSTILE.name if state is ImportState.STOPPED else "")
)
_PROBLEMS = tuple(
    ImportRow(line, line, username, email, RowState.FAULTY, stored_reasons(reasons))
    for line, username, email, reasons in (
        (3, "bob", "bob@example.com", (Reason("email", "row.email"),)),
        (7, "", "", (Reason("username", "missing"),)),
        (
            8,
            "eve",
            "",
            (
                reason("name", "text.printable", most=200),
                Reason("", "%(said)s", {"said": "<b>%d</b>"}),
            ),
        ),
        (9, HOSTILE.username, HOSTILE.email, (reason("", "row.size", size=64),)),
    )
)


def _page(
    state: ImportState,
    good: int = 0,
    created: int = 0,
    done: int = 0,
    *,
    file: str = "customers-2026.csv",
    problems: tuple[ImportRow, ...] = _PROBLEMS,
) -> ObjectPage:
    counts = {RowState.GOOD: good, RowState.CREATED: created}
    if problems:
        counts |= {RowState.EXISTS: 1, RowState.FAULTY: 4}
    return state_page(_import(state, file, done), counts, problems)


def imports_examples() -> Mapping[str, PageContext]:
    """The form, and an import in each stage."""
    settings, column = AccountSettings(), reason("", "file.columns", column="<i>")
    return {
        "admin_import": import_form(settings, ["shoe_size"], _RECENT, _NOW),
        "admin_import_first": import_form(settings, [], (), _NOW),
        "admin_import_fault": import_form(settings, [], (), _NOW, column),
        "admin_import_receiving": _page(ImportState.RECEIVING, problems=()),
        "admin_import_checking": _page(ImportState.CHECKING, done=300),
        "admin_import_checked": _page(ImportState.CHECKED, 1_200),
        "admin_import_nothing_good": _page(ImportState.CHECKED),
        "admin_import_one_good": _page(ImportState.CHECKED, 1, file=HOSTILE.name),
        "admin_import_running": _page(ImportState.IMPORTING, 562, 638, 640),
        "admin_import_finished": _page(ImportState.FINISHED, created=1_200),
        "admin_import_all": _page(ImportState.FINISHED, created=1_204, problems=()),
        "admin_import_stopped": _page(ImportState.STOPPED, created=20),
    }
