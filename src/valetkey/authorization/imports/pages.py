"""/admin/users/import: upload a file of users, review the check, import, and read the report."""

from collections.abc import Iterator, Mapping, Sequence

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
from valetkey.authorization.site.admin.input_fields import InputField
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.object_page import Fact, ObjectPage, Related, read_activity
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    Part,
    badge,
    code,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.users.users import USERS
from valetkey.authorization.site.page import Act, AnyPage, Download, Outcome, Page, SeeOther, Show
from valetkey.config.sections.people import AccountSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
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


_TITLE = translatable("Import users")
_STATES = {
    ImportState.RECEIVING: badge(translatable("Uploading"), "note"),
    ImportState.CHECKING: badge(translatable("Checking"), "note"),
    ImportState.CHECKED: badge(translatable("Waiting for your decision"), "note"),
    ImportState.IMPORTING: badge(translatable("Importing"), "note"),
    ImportState.FINISHED: badge(translatable("Finished"), "good"),
    ImportState.STOPPED: badge(translatable("Stopped")),
}
_FORMATS = translatable(
    "CSV with a heading, a JSON array of objects, or NDJSON, in UTF-8: at most %(size)s MiB and"
    " %(users)s users."
)
_CONTENT = (
    Fact(
        translatable("Example"),
        (
            code("username,email,name,password_hash"),
            code("ada,ada@example.com,Ada Lovelace,$2b$12$Qf…"),
        ),
    ),
    Fact(
        translatable("What the file contains"),
        (
            words(
                translatable(
                    "%(username)s and %(email)s are required. Users whose username or email"
                    " address exists are reported and never changed."
                ),
                username="username",
                email="email",
            ),
            words(
                translatable(
                    "%(hash)s takes the hashes of most software, such as bcrypt, Argon2 and"
                    " PBKDF2. Users without one set a password by email."
                ),
                hash="password_hash",
            ),
            words(
                translatable("Email addresses count as verified unless %(verified)s is false."),
                verified="email_verified",
            ),
            words(translatable("No email is sent to the users.")),
        ),
    ),
)
_ACCEPTED = (".csv", ".json", ".ndjson", "text/csv", "application/json", "application/x-ndjson")


class ImportPages(Struct, frozen=True):
    """Import users from a file."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the upload, one import, and its report."""
        recent = administrator(Permission.USERS, recent=True)
        # A long import is watched for longer than a proof of identity is recent.
        anytime = administrator(Permission.USERS)
        return (
            Page(
                IMPORT,
                recent,
                self.show_form,
                Act(self.upload, upload=self.services.settings.accounts.import_upload),
                title=_TITLE,
            ),
            Page(ONE, anytime, self.show, Act(self.decide, requires=recent), title=_TITLE),
            Page(REPORT, recent, self.report, title=_TITLE),
        )

    @property
    def _uploads(self) -> ImportUpload:
        services = self.services
        most = services.settings.accounts.import_users
        return ImportUpload(services.store, services.random, most)

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
        user_import, counts, problems = await self.services.store.scan(
            lambda tx: (
                UserImports.of(tx).find(import_id),
                UserImports.of(tx).counts(import_id),
                UserImports.of(tx).problems(import_id, 0, SHOWN),
            )
        )
        if user_import is None:
            raise page_not_found()
        headers: Pairs = (("refresh", f"{_EVERY}; url={_address(import_id)}"),)
        page = state_page(user_import, counts, problems)
        if user_import.state.is_running:
            return Show(page, headers=headers)
        activity = await read_activity(self.services, request, f"import:{import_id}")
        return Show(replace(page, activity=activity))

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
        user_import = await self.services.store.read(lambda tx: UserImports.of(tx).find(import_id))
        if user_import is None or user_import.state.is_running:
            raise page_not_found()
        language = viewer_of(request.request, request.user).language
        pieces = report(self.services.store, import_id, translations(language).gettext)
        return Download(f"{import_id}.csv", "text/csv; charset=utf-8", pieces=pieces)

    async def _form(self, request: AdminRequest, fault: Reason | None = None) -> Outcome:
        recent, attributes = await self.services.store.scan(
            lambda tx: (UserImports.of(tx).recent(_RECENT), tx.attributes())
        )
        page = import_form(
            self.services.settings.accounts,
            [attribute.name for attribute in attributes],
            recent,
            request.now,
            fault,
        )
        return Show(page, _BAD_REQUEST if fault else 200)


def import_form(
    settings: AccountSettings,
    attributes: Sequence[str],
    recent: Sequence[UserImport],
    now: Instant,
    fault: Reason | None = None,
) -> InputFormPage:
    """Return the form for a file, with the `fault` of the one before, and recent imports."""
    columns = (*COLUMNS, *(attribute_column(name) for name in attributes))
    file = InputField(
        "file",
        translatable("File"),
        translatable(
            "The file is checked first and nothing is changed. You then see which users can be"
            " imported, and decide."
        ),
        "file",
        "",
        required=True,
        choices=tuple((file_type, file_type) for file_type in _ACCEPTED),
        faulty=fault is not None,
        must=fault,
    )
    formats = words(_FORMATS, size=settings.import_size, users=settings.import_users)
    return InputFormPage(
        action=IMPORT,
        back=USERS,
        above=translatable("Users"),
        title=_TITLE,
        submit=translatable("Check the file"),
        fields=(file,),
        facts=(Fact(translatable("Format"), (formats,)),),
        details=(
            *_CONTENT,
            Fact(translatable("All columns"), (code(", ".join(columns)),)),
        ),
        related=(
            Related(
                "recent",
                translatable("Recent imports"),
                tuple(
                    Line(
                        _name(user_import),
                        (_STATES[user_import.state],),
                        (since(When(user_import.created_at, now)),),
                    )
                    for user_import in recent
                ),
                translatable("No imports yet"),
            ),
        ),
    )


def state_page(
    user_import: UserImport, counts: Mapping[RowState, int], problems: Sequence[ImportRow]
) -> ObjectPage:
    """Return the page of an import: its progress, the result of the check, or the report."""
    state, address = user_import.state, _address(user_import.id)
    good, created = counts.get(RowState.GOOD, 0), counts.get(RowState.CREATED, 0)
    others = (
        (translatable("Already exist"), counts.get(RowState.EXISTS, 0)),
        (translatable("With errors"), counts.get(RowState.FAULTY, 0)),
    )
    figures: tuple[tuple[str, int], ...] = ()
    if state is ImportState.CHECKED:
        figures = ((translatable("Can be imported"), good), *others)
    elif state in {ImportState.IMPORTING, ImportState.FINISHED, ImportState.STOPPED}:
        figures = ((translatable("Imported"), created), *others)
    is_over = state in {ImportState.FINISHED, ImportState.STOPPED}
    remarked = [row for row in problems if row.state in {RowState.GOOD, RowState.CREATED}]
    wrong = [row for row in problems if row not in remarked]
    all_imported = state is ImportState.FINISHED and not wrong
    links: tuple[tuple[str, str, str], ...] = ()
    if not state.is_running:
        links = (("report", translatable("Download report"), f"{address}/report"),)
    related: list[Related] = []
    if decisions := tuple(_decisions(user_import, good)):
        related.append(Related("decision", translatable("Decision"), decisions))
    is_full = len(problems) == SHOWN
    if wrong and not state.is_running:
        title = translatable("Not imported") if is_over else translatable("Will not be imported")
        is_part = is_full or len(wrong) < sum(count for _, count in others)
        lines, hint = tuple(map(_problem, wrong)), _MORE if is_part else ""
        related.append(Related("problems", title, lines, hint=hint))
    if remarked and not state.is_running:
        title = translatable("Imported without some values") if is_over else _WITHOUT
        lines, hint = tuple(map(_problem, remarked)), _MORE if is_full else ""
        related.append(Related("remarks", title, lines, hint=hint))
    return ObjectPage(
        IMPORT,
        _TITLE,
        user_import.file,
        state=(_STATES[state],),
        notes=_progress(user_import) if state.is_running else (),
        done=translatable("All users of the file were imported.") if all_imported else "",
        figures=figures,
        links=links,
        related=tuple(related),
    )


_WITHOUT = translatable("Will be imported without some values")
_MORE = translatable("These are the first ones; the report has all of them.")


def _progress(user_import: UserImport) -> tuple[Part, ...]:
    is_importing = user_import.state is ImportState.IMPORTING
    label = translatable("Importing users") if is_importing else translatable("Checking users")
    sentence = translatable(
        "%(done)s of %(total)s users. The page updates automatically; you can leave it."
    )
    return (
        Part("progress", label, {"total": user_import.total}, count=user_import.position),
        words(sentence, done=user_import.position, total=user_import.total),
    )


def _decisions(user_import: UserImport, good: int) -> Iterator[Line]:
    """Return what can be decided now, each with its button."""

    def line(slug: str, decision: str, title: str, description: Part) -> Line:
        fields = (("decision", decision),)
        return Line(
            description, act=LineButton(_address(user_import.id), title, title, "", fields, slug)
        )

    if user_import.state is ImportState.CHECKED:
        if good:
            yield line(
                "do",
                "import",
                translatable("Import users"),
                words(translatable("Users that can be imported: %(number)s"), number=good),
            )
        nothing = translatable("Nothing has been changed so far. The file is deleted after a day.")
        yield line("discard", "stop", translatable("Discard the file"), words(nothing))
    elif user_import.state.is_running:
        stay = translatable("Users who were imported stay.")
        yield line("stop", "stop", translatable("Stop the import"), words(stay))


def _problem(row: ImportRow) -> Line:
    return Line(
        text(row.username or row.email or "-"),
        below=(
            *((text(row.email),) if row.email else ()),
            words(translatable("row %(row)s"), row=row.line),
            *(Part("words", it.text, it.values, small=it.field) for it in reasons_of(row.reason)),
        ),
    )


def _name(user_import: UserImport) -> Part:
    url = _address(user_import.id)
    return text(user_import.file, url) if user_import.file else words(translatable("File"), url=url)


def _address(import_id: str) -> str:
    return f"{IMPORT}/{import_id}"


def console_pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages of the console."""
    return ImportPages(services).pages()
