"""Imports of users: every row is checked first, then each becomes an account."""

import asyncio
import re
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice

from msgspec import Struct, UnsetType

from valetkey.authorization.actions.admin.audit import BYTE_ORDER_MARK, table_of
from valetkey.authorization.actions.admin.permissions import (
    Actor,
    Permission,
    permissions_of,
    require,
)
from valetkey.authorization.actions.attributes import merged_attributes, takes_json, typed_value
from valetkey.authorization.actions.groups import add_member
from valetkey.authorization.actions.users import Accounts, UserRecord, wanted_record
from valetkey.authorization.authentication.password_formats import HashFault, read_hash
from valetkey.authorization.imports.model import (
    ImportKind,
    ImportRow,
    ImportState,
    RowState,
    UserImport,
    UserImportFinished,
    UserImportStarted,
)
from valetkey.authorization.imports.rules.files import (
    OPTIONAL,
    FileFault,
    FileFormat,
    ImportedUser,
    boolean_text,
    decode,
    explain,
    format_of,
    read_file,
    shown_text,
    stored_reasons,
)
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.model.user import (
    ATTRIBUTE_NAME,
    MOST_OF_USER,
    Attribute,
    Group,
    StandardClaims,
    Uid,
    User,
    UserAttributes,
    group_names,
)
from valetkey.authorization.protocol.register.faults import MetadataError, Reason, reason
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, days, later, minutes, seconds
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.text import translatable
from valetkey.web.body import read_json


def imported_attributes(
    declared: Collection[Attribute], attributes: Mapping[str, object], kind: ImportKind
) -> UserAttributes | tuple[Reason, ...]:
    """Return the attributes of a row, or what is wrong with them.

    A cell is text, read as the type of its attribute, and as JSON where that is no simple type.
    """
    declarations = {attribute.name: attribute for attribute in declared}
    faults = [_unknown(name) for name in attributes if name not in declarations]
    values = dict(attributes)
    if kind is ImportKind.CSV and not faults:
        for name, text in attributes.items():
            try:
                values[name] = _read(declarations[name], str(text))
            except Refused:
                faults.append(reason(f"attributes/{name}", "text.json"))
    if faults:
        return _distinct(faults)
    user_attributes = merged_attributes(declared, UserAttributes.NOTHING, values)
    return (
        _distinct(map(_reason, user_attributes))
        if isinstance(user_attributes, tuple)
        else user_attributes
    )


def _read(attribute: Attribute, text: str) -> object:
    if takes_json(attribute):
        return read_json(text.encode())
    is_boolean = attribute.schema.get("type") == "boolean"
    return typed_value(attribute, boolean_text(text) if is_boolean else text)


def _unknown(name: str) -> Reason:
    if re.fullmatch(ATTRIBUTE_NAME, name) is None:
        return reason("attributes", "unknown")
    return reason(f"attributes/{name}", "attribute.undeclared")


def _reason(fault: MetadataError) -> Reason:
    # Below an attribute, a path may have any characters.
    return Reason("/".join(fault.field.split("/")[:2]), fault.code, fault.values)


def _distinct(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    return tuple(
        {(fault.field, fault.text, *fault.values.items()): fault for fault in reasons}.values()
    )


BATCH = 20
"""Users that one transaction checks or creates: at most some ten milliseconds."""

MOST_OPEN = 5
"""Maximum number of imports that wait for a decision or are running."""

UPLOAD_LIFETIME = minutes(10)
"""How long an incomplete upload is kept, such as that of a killed process."""

WAITING_LIFETIME = days(1)
"""How long a checked file is kept without a decision."""

REPORT_LIFETIME = days(7)
"""How long the report of an import is kept."""

MOST_KEPT = 100
"""Number of imports whose report is kept; older ones are deleted."""

_LEASE = seconds(10)
_CHUNK = 200


class _Judged(Struct, frozen=True):
    """The user to register, and the stored form of why claims and groups are not taken."""

    record: UserRecord
    uid: Uid | None
    password_hash: str | None
    attributes: UserAttributes
    groups: Sequence[Group]
    left: str


_BEFORE = {
    ImportState.CHECKING: (ImportState.RECEIVING,),
    ImportState.IMPORTING: (ImportState.CHECKED,),
    ImportState.STOPPED: (
        ImportState.RECEIVING,
        ImportState.CHECKING,
        ImportState.CHECKED,
        ImportState.IMPORTING,
    ),
}


class ImportLimit(FileFault):
    """Too many imports wait for a decision or are running."""

    def __init__(self) -> None:
        """Store the reason."""
        super().__init__("file.open")


class ImportUpload(Struct, frozen=True):
    """Receives files of at most `most` users."""

    store: Store
    random: Callable[[int], bytes]
    most: int

    async def receive(
        self,
        actor: Actor,
        name: str,
        content: bytes,
        now: Instant,
        form: FileFormat | None = None,
    ) -> str:
        """Store the rows of a file, and let a worker check them. Returns the id of the import.

        Without `form`, name and content tell the format. Raises FileFault with what is wrong
        with the file, ImportLimit, and Refused.
        """
        form = form or format_of(name, content)
        rows = read_file(form, content, self.most)
        # Read the first rows before anything is written: most faults of a file are in its heading.
        chunk = await _some(rows)
        uid: Uid | None = getattr(actor, "uid", None)
        import_id = fresh_id("im", self.random)
        upload = UserImport(
            *(import_id, uid, actor.done_by, shown_text(name), form.rows, ImportState.RECEIVING),
            *(0, 0, now),
            due_at=now,
        )
        if not await self._write(actor, lambda tx: _begin(tx, actor, upload)):
            raise ImportLimit
        try:
            while chunk:
                await self._write(actor, _adding(actor, import_id, chunk))
                chunk = await _some(rows)
        except FileFault:
            await self.move(actor, import_id, ImportState.STOPPED, now)
            raise
        await self.move(actor, import_id, ImportState.CHECKING, now)
        return import_id

    async def move(self, actor: Actor, import_id: str, after: ImportState, now: Instant) -> bool:
        """Begin the next stage, or stop the import. False if another request was faster."""
        return await self._write(actor, lambda tx: move_import(tx, actor, import_id, after, now))

    async def _write(self, actor: Actor, work: Callable[[Transaction], bool]) -> bool:
        return await self.store.write(work, done_by=actor.done_by)


def _adding(
    actor: Actor, import_id: str, rows: Sequence[ImportRow]
) -> Callable[[Transaction], bool]:
    return lambda tx: _add(tx, actor, import_id, rows)


async def _some(rows: Iterator[ImportRow]) -> Sequence[ImportRow]:
    # In a thread: a file of millions of empty lines must not delay other requests.
    return await asyncio.to_thread(lambda: list(islice(rows, _CHUNK)))


def _begin(tx: Transaction, actor: Actor, upload: UserImport) -> bool:
    UserImports.of(tx).exclude()
    require(tx, actor, Permission.USERS)
    return UserImports.of(tx).begin(upload, MOST_OPEN)


def _add(tx: Transaction, actor: Actor, import_id: str, rows: Sequence[ImportRow]) -> bool:
    require(tx, actor, Permission.USERS)
    if not UserImports.of(tx).add(import_id, rows):
        raise Refused.because(ErrorCode.NOT_FOUND, "this import was stopped", "import.over")
    return True


def move_import(
    tx: Transaction, actor: Actor, import_id: str, after: ImportState, now: Instant
) -> bool:
    """Begin the next stage, or stop the import. False if another request was faster."""
    require(tx, actor, Permission.USERS)
    moved = [
        before
        for before in _BEFORE.get(after, ())
        if UserImports.of(tx).move(import_id, before, after, now)
    ]
    if after is ImportState.IMPORTING and moved:
        users = UserImports.of(tx).counts(import_id).get(RowState.GOOD, 0)
        tx.events.add(UserImportStarted(import_id, users), now)
    if ImportState.IMPORTING in moved:
        _finished(tx, import_id, now)
    return bool(moved)


class ImportWork(Struct, frozen=True):
    """Run an import in a worker, one transaction for each batch."""

    accounts: Accounts

    def step(self, tx: Transaction, user_import: UserImport, now: Instant) -> UserImport | None:
        """Process the next batch of a stage. Return the import with its new state.

        None if another worker has it, or if it was the last batch.
        """
        is_importing = user_import.state is ImportState.IMPORTING
        # Before any other lock: accounts are locked first.
        may = not is_importing or _may(tx, user_import.uid)
        rows = UserImports.of(tx).rows(user_import.id, user_import.position, BATCH)
        if not UserImports.of(tx).advance(user_import, len(rows), later(now, _LEASE)):
            return None
        acting = tx.acting(user_import.done_by)
        if not may:
            UserImports.of(tx).move(user_import.id, user_import.state, ImportState.STOPPED, now)
            _finished(acting, user_import.id, now)
            return None
        for row in rows:
            self._do(acting, user_import, row, now)
        if len(rows) == BATCH:
            return replace(user_import, position=user_import.position + BATCH)
        if user_import.state is ImportState.CHECKING:
            UserImports.of(tx).move(user_import.id, user_import.state, ImportState.CHECKED, now)
        elif is_importing:
            UserImports.of(tx).move(user_import.id, user_import.state, ImportState.FINISHED, now)
            _finished(acting, user_import.id, now)
        return None

    def _do(self, tx: Transaction, user_import: UserImport, row: ImportRow, now: Instant) -> None:
        state, reason = row.state, row.reason
        if user_import.state is ImportState.CHECKING and state is RowState.WAITING:
            state, reason = self._check(tx, user_import.kind, row)
        elif user_import.state is ImportState.IMPORTING and state is RowState.GOOD:
            state, reason = self._create(tx, user_import.kind, row, now)
        elif user_import.state is ImportState.STOPPED and state in {
            RowState.WAITING,
            RowState.GOOD,
        }:
            state, reason = RowState.FAULTY, stored_reasons([Reason("", "row.stopped")])
        if state is not row.state:
            UserImports.of(tx).decide(user_import.id, row.position, state, reason)

    def _check(self, tx: Transaction, kind: ImportKind, row: ImportRow) -> tuple[RowState, str]:
        judged = self._judged(tx, kind, row)
        if isinstance(judged, str):
            return RowState.FAULTY, judged
        taken = _taken(tx, judged.record, judged.uid)
        return (RowState.EXISTS, taken) if taken else (RowState.GOOD, judged.left)

    def _create(
        self, tx: Transaction, kind: ImportKind, row: ImportRow, now: Instant
    ) -> tuple[RowState, str]:
        judged = self._judged(tx, kind, row)
        if isinstance(judged, str):
            return RowState.FAULTY, judged
        record, uid = judged.record, judged.uid
        if taken := _taken(tx, record, uid):
            return RowState.EXISTS, taken
        made = self.accounts.register(
            *(tx, record, now),
            uid=uid,
            password_hash=judged.password_hash,
            attributes=judged.attributes,
        )
        if isinstance(made, User):
            for group in judged.groups:
                add_member(tx, made, group, now)
            return RowState.CREATED, judged.left
        # A concurrent transaction may have registered the same user since.
        if taken := _taken(tx, record, uid):
            return RowState.EXISTS, taken
        return RowState.FAULTY, _stored(made)

    def _judged(self, tx: Transaction, kind: ImportKind, row: ImportRow) -> _Judged | str:
        """Return the user to register, or the stored form of what is wrong with the row."""
        decoded = decode(kind, row.data)
        if isinstance(decoded, Reason):
            return stored_reasons([decoded])
        imported, left = decoded
        record = wanted_record(imported)
        wrong = (*record.faults(), *self.accounts.name_faults(record.username))
        if faults := [it for it in wrong if it.field.partition("/")[0] not in OPTIONAL]:
            return _stored(faults)
        record = _without(record, wrong)
        groups, unknown = _groups(tx, imported.groups)
        if len(groups) > MOST_OF_USER:
            return stored_reasons([reason("groups", "names.most", most=MOST_OF_USER)])
        if fault := hash_fault(imported):
            return stored_reasons([fault])
        attributes: UserAttributes | tuple[Reason, ...] = UserAttributes.NOTHING
        if imported.attributes:
            declared = tx.attributes()
            attributes = imported_attributes(declared, imported.attributes, kind)
        if isinstance(attributes, tuple):
            return stored_reasons(attributes)
        remarks = stored_reasons((*left, *map(_as_reason, wrong), *unknown))
        password = imported.password_hash or None
        return _Judged(record, _uid(imported), password, attributes, groups, remarks)


def _without(record: UserRecord, faults: Iterable[MetadataError]) -> UserRecord:
    """Return the record without the claims that break a rule."""
    claims = record.claims
    for fault in faults:
        name, _, part = fault.field.partition("/")
        if part:
            claims = replace(claims, address=replace(claims.address, **{part: ""}))
        else:
            claims = replace(claims, **{name: getattr(StandardClaims.NOTHING, name)})
    if not claims.phone_number:
        claims = replace(claims, phone_number_verified=False)
    return replace(record, claims=claims)


def _groups(tx: Transaction, listed: str | Sequence[str]) -> tuple[list[Group], list[Reason]]:
    """Return the groups of these names, and what to say of those that do not exist."""
    text = listed if isinstance(listed, str) else " ".join(listed)
    existing = {name: tx.groups.find(name) for name in group_names(text)}
    unknown = [name for name, group in existing.items() if group is None]
    return (
        [group for group in existing.values() if group is not None],
        [reason("groups", "row.group", name=shown_text(name)) for name in unknown],
    )


def _may(tx: Transaction, uid: Uid | None) -> bool:
    if uid is None:
        return True
    # Locked: the role must not end between this check and the operation.
    tx.users.hold(uid)
    user = tx.users.find(uid)
    if user is None or user.disabled_at is not None:
        return False
    return permissions_of(user.role).allow(Permission.USERS)


def _finished(tx: Transaction, import_id: str, now: Instant) -> None:
    counts = UserImports.of(tx).counts(import_id)
    created, existing = counts.get(RowState.CREATED, 0), counts.get(RowState.EXISTS, 0)
    # The rows that a stopped import left count as failed: they become so.
    failed = sum(counts.values()) - created - existing
    tx.events.add(UserImportFinished(import_id, created, existing, failed), now)


def _taken(tx: Transaction, record: UserRecord, uid: Uid | None) -> str:
    field = ""
    if tx.users.find_by_email(record.email) is not None:
        field = "email"
    elif tx.users.find_by_username(record.username) is not None:
        field = "username"
    elif uid is not None and tx.users.find(uid) is not None:
        field = "uid"
    return stored_reasons([Reason(field, f"row.{field}")]) if field else ""


def hash_fault(imported: ImportedUser) -> Reason | None:
    """Return why a sign-in cannot verify the hash of a row; None if it can, or without a hash."""
    if not imported.password_hash:
        return None
    try:
        read_hash(imported.password_hash)
    except HashFault as fault:
        return Reason("password_hash", fault.code)
    return None


def _uid(imported: ImportedUser) -> Uid | None:
    return None if isinstance(imported.uid, UnsetType) else Uid(imported.uid)


def _as_reason(fault: MetadataError) -> Reason:
    return Reason(fault.field, fault.code, fault.values)


def _stored(faults: Sequence[MetadataError]) -> str:
    return stored_reasons(map(_as_reason, faults))


_REPORTED_AT_ONCE = 500
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
    yield BYTE_ORDER_MARK.encode() + table_of([[gettext(name) for name in _HEADING]])
    after = 0
    while rows := await _rows(store, import_id, after):
        after = rows[-1].position
        yield table_of(
            [
                (
                    *(str(it.line), it.username, it.email),
                    *(gettext(_RESULTS[it.state]), explain(it.reason, gettext)),
                )
                for it in rows
            ]
        )


async def _rows(store: Store, import_id: str, after: int) -> Sequence[ImportRow]:
    return await store.scan(lambda tx: UserImports.of(tx).rows(import_id, after, _REPORTED_AT_ONCE))
