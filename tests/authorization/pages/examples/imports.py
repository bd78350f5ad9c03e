"""Examples of the pages that import users."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago
from tests.authorization.pages.examples.people import HOSTILE
from valetkey.authorization.imports.model import ImportState
from valetkey.authorization.imports.pages import (
    ImportLine,
    ImportPage,
    ImportStatePage,
    ProblemLine,
)
from valetkey.authorization.imports.rules.files import COLUMNS
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.protocol.register.faults import Reason, reason
from valetkey.kernel.replace import replace

_IMPORT = "/admin/users/import"
_ONE = f"{_IMPORT}/im_aLK10lrmv1k2fsuxsIlNQs"
_RECENT = tuple(
    ImportLine(file, state.value, ago(90 * (1 + place)), _ONE)
    for place, (state, file) in enumerate(
        (state, file)
        for state in ImportState
        for file in ("customers-2026.csv", HOSTILE.name if state is ImportState.STOPPED else "")
    )
)
_PROBLEMS = (
    *(
        ProblemLine(line, username, email, reasons)
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
    ),
)
_FORM = ImportPage(_IMPORT, "/admin/users", 8, 20_000, COLUMNS)
_CHECKED = ImportStatePage(
    action=_ONE,
    back=_IMPORT,
    file="customers-2026.csv",
    state="checked",
    is_running=False,
    total=1_204,
    done=0,
    good=1_200,
    created=0,
    existing=1,
    faulty=3,
    problems=_PROBLEMS,
    report_url=f"{_ONE}/report",
)


def imports_examples() -> Mapping[str, PageContext]:
    """The form, and an import in each stage."""
    return {
        "admin_import": replace(_FORM, recent=_RECENT),
        "admin_import_first": _FORM,
        "admin_import_fault": replace(_FORM, fault=reason("", "file.columns", column="<i>")),
        "admin_import_receiving": replace(
            _CHECKED, state="receiving", is_running=True, good=0, total=0, problems=()
        ),
        "admin_import_checking": replace(_CHECKED, state="checking", is_running=True, done=300),
        "admin_import_checked": _CHECKED,
        "admin_import_nothing_good": replace(_CHECKED, good=0),
        "admin_import_one_good": replace(_CHECKED, good=1, file=HOSTILE.name),
        "admin_import_running": replace(
            _CHECKED, state="importing", is_running=True, done=640, created=638, good=562
        ),
        "admin_import_finished": replace(_CHECKED, state="finished", good=0, created=1_200),
        "admin_import_all": replace(
            _CHECKED, state="finished", created=1_204, existing=0, faulty=0, problems=()
        ),
        "admin_import_stopped": replace(_CHECKED, state="stopped", good=0, created=20),
    }
