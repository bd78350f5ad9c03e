"""/admin/users/import: upload a file of users, review the check, import, and read the report."""

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.imports.model import (
    ImportRow,
    ImportState,
    RowState,
    UserImport,
)
from valetkey.authorization.imports.rules.files import (
    COLUMNS,
    FileFault,
    attribute_column,
    reasons_of,
)
from valetkey.authorization.imports.rules.users import ImportUpload, report
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.language import translations
from valetkey.authorization.layout.viewer import viewer_of
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.register.faults import Reason
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.users.users import USERS
from valetkey.authorization.site.page import Act, AnyPage, Download, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Store
from valetkey.config.sections.people import AccountSettings
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Pairs

IMPORT = f"{USERS}/import"
ONE = f"{IMPORT}/{{import_id}}"
REPORT = f"{ONE}/report"

SHOWN = 50
"""Maximum number of rows with problems on the page; the report has all."""

_BAD_REQUEST = 400
_RECENT = 10
_EVERY = 2
_DECISIONS = {"import": ImportState.IMPORTING, "stop": ImportState.STOPPED}


class ImportLine(Struct, frozen=True):
    """One import in the list."""

    file: str
    state: str
    since: When
    url: str


class ImportPage(Struct, frozen=True):
    """The form for a file, and recent imports. Posts `csrf` and the file `file`."""

    template: ClassVar[str] = "imports/import.html"

    action: str
    back: str
    mebibytes: int
    users: int
    columns: tuple[str, ...]
    recent: tuple[ImportLine, ...] = ()
    #: The fault of the file.
    fault: Reason | None = None


class ProblemLine(Struct, frozen=True):
    """A row of the file that gets no account, and the reason."""

    line: int
    username: str
    email: str
    reasons: tuple[Reason, ...]


class ImportStatePage(Struct, frozen=True):
    """One import: its progress, the result of the check, or the report.

    Posts `csrf` and `decision`: `import` or `stop`.
    """

    template: ClassVar[str] = "imports/import_state.html"

    action: str
    back: str
    file: str
    state: str
    is_running: bool
    total: int
    done: int
    good: int
    created: int
    existing: int
    faulty: int
    problems: tuple[ProblemLine, ...]
    report_url: str


class ImportPages(Struct, frozen=True):
    """Import users from a file."""

    store: Store
    settings: AccountSettings
    random: Callable[[int], bytes]

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the upload, one import, and its report."""
        recent = administrator(Permission.USERS, recent=True)
        # A long import is watched for longer than a proof of identity is recent.
        anytime = administrator(Permission.USERS)
        title = translatable("Import users")
        return (
            Page(
                IMPORT,
                recent,
                self.show_form,
                Act(self.upload, upload=self.settings.import_upload),
                title=title,
            ),
            Page(ONE, anytime, self.show, Act(self.decide, requires=recent), title=title),
            Page(REPORT, recent, self.report, title=title),
        )

    @property
    def _uploads(self) -> ImportUpload:
        return ImportUpload(self.store, self.random, self.settings.import_users)

    async def show_form(self, request: AdminRequest) -> Outcome:
        """Show the upload form and recent imports."""
        return await self._form(request)

    async def upload(self, request: AdminRequest) -> Outcome:
        """Store the uploaded file; it is checked in the background."""
        file = request.form.file("file")
        if file is None:
            return await self._form(request, Reason("", "file.none"))
        try:
            import_id = await self._uploads.receive(
                request.actor, file.name, file.content, request.now
            )
        except FileFault as error:
            return await self._form(request, error.reason)
        return SeeOther(_address(import_id))

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the progress, the result of the check, or the report; reload while it is running."""
        import_id = request.arguments["import_id"]
        found, counts, problems = await self.store.scan(
            lambda tx: (
                UserImports.of(tx).find(import_id),
                UserImports.of(tx).counts(import_id),
                UserImports.of(tx).problems(import_id, 0, SHOWN),
            )
        )
        if found is None:
            raise page_not_found()
        address = _address(import_id)
        headers: Pairs = (("refresh", f"{_EVERY}; url={address}"),)
        page = ImportStatePage(
            action=address,
            back=IMPORT,
            file=found.file,
            state=found.state.value,
            is_running=found.state.is_running,
            total=found.total,
            done=found.position,
            good=counts.get(RowState.GOOD, 0),
            created=counts.get(RowState.CREATED, 0),
            existing=counts.get(RowState.EXISTS, 0),
            faulty=counts.get(RowState.FAULTY, 0),
            problems=tuple(_problem(each) for each in problems),
            report_url=f"{address}/report",
        )
        return Show(page, headers=headers if found.state.is_running else ())

    async def decide(self, request: AdminRequest) -> Outcome:
        """Import the users, discard the file, or stop."""
        import_id, actor = request.arguments["import_id"], request.actor
        after = _DECISIONS.get(request.form.get("decision") or "")
        if after is not None:
            await self._uploads.move(actor, import_id, after, request.now)
        # Redirect even if another request was faster: the page shows the current state.
        return SeeOther(_address(import_id))

    async def report(self, request: AdminRequest) -> Outcome:
        """Send the outcome of every row as CSV."""
        import_id = request.arguments["import_id"]
        found = await self.store.read(lambda tx: UserImports.of(tx).find(import_id))
        if found is None or found.state.is_running:
            raise page_not_found()
        language = viewer_of(request.request, request.user).language
        pieces = report(self.store, import_id, translations(language).gettext)
        return Download(f"{import_id}.csv", "text/csv; charset=utf-8", pieces=pieces)

    async def _form(self, request: AdminRequest, fault: Reason | None = None) -> Outcome:
        recent, attributes = await self.store.scan(
            lambda tx: (UserImports.of(tx).recent(_RECENT), tx.attributes())
        )
        page = ImportPage(
            action=IMPORT,
            back=USERS,
            mebibytes=self.settings.import_size,
            users=self.settings.import_users,
            columns=(*COLUMNS, *(attribute_column(each.name) for each in attributes)),
            recent=tuple(_line(each, request) for each in recent),
            fault=fault,
        )
        return Show(page, _BAD_REQUEST if fault else 200)


def _address(import_id: str) -> str:
    return f"{IMPORT}/{import_id}"


def _line(found: UserImport, request: AdminRequest) -> ImportLine:
    since = When(found.created_at, request.now)
    return ImportLine(found.file, found.state.value, since, _address(found.id))


def _problem(row: ImportRow) -> ProblemLine:
    return ProblemLine(row.line, row.username, row.email, tuple(reasons_of(row.reason)))


def console_pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages of the console."""
    return ImportPages(services.store, services.settings.accounts, services.random).pages()
