"""Files of users: their formats and columns, read with bounds."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from io import StringIO
from typing import Annotated, cast

import msgspec
from msgspec import inspect

from valetkey.authorization.actions.users import PostalAddress, Profile, UserWanted
from valetkey.authorization.imports.model import ImportKind, ImportRow, RowState
from valetkey.authorization.model.user import ATTRIBUTE_NAME, fold
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, Reason, fault_of, reason
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.text import printable

_MOST = 200
"""Maximum length of the explained reasons of a row, in characters."""

_LIST = "["


class FileFault(OperatorError):
    """The file is refused as a whole, for a reason with a code."""

    def __init__(self, code: str, **values: object) -> None:
        """Store the reason; its text is the message."""
        self.reason = reason("", code, **values)
        super().__init__(self.reason.explain())


def stored_reasons(reasons: Iterable[Reason]) -> str:
    """Return the reasons as text to store: the first ones if they are too long together."""
    kept: list[Reason] = []
    for fault in reasons:
        if kept and len(_joined([*kept, fault])) > _MOST:
            break
        kept.append(fault)
    return msgspec.json.encode(kept).decode() if kept else ""


def reasons_of(stored: str) -> Sequence[Reason]:
    """Return the reasons of a row. Version 0.2 stored English sentences instead of codes."""
    if stored.startswith(_LIST):
        return msgspec.json.decode(stored, type=tuple[Reason, ...])
    return tuple(_sentences(stored)) if stored else ()


def explain(stored: str, gettext: Callable[[str], str] = str) -> str:
    """Return the stored reasons as text in the language of `gettext`."""
    return _joined(reasons_of(stored), gettext)


def _sentences(stored: str) -> Iterator[Reason]:
    for part in stored.split("; "):
        field, colon, sentence = part.partition(": ")
        if not colon or " " in field:
            field, sentence = "", part
        yield Reason(field, "%(said)s", {"said": sentence})


def _joined(reasons: Iterable[Reason], gettext: Callable[[str], str] = str) -> str:
    explained = ((fault.field, fault.explain(gettext)) for fault in reasons)
    return "; ".join(f"{field}: {sentence}" if field else sentence for field, sentence in explained)


LONGEST_ROW = 64 * 1024
"""Maximum size of one row, in characters."""

LONGEST_SHOWN = 200
"""Characters of a text that are kept for the report."""


class FileFormat(StrEnum):
    """The formats of a file. The rows of NDJSON are those of a JSON array, one on each line."""

    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"

    @property
    def rows(self) -> ImportKind:
        """How its rows are stored."""
        return ImportKind.CSV if self is FileFormat.CSV else ImportKind.JSON


_ADDRESS = "address."
_ATTRIBUTE = "attribute."
_MARKS = ",;\t"
_NOT_CSV = (
    ("unexpected end of data", "file.quotation"),
    ("expected after", "file.text"),
    ("field larger than", "file.cell"),
)
"""Parts of the messages of the CSV parser, and their codes."""

_ATTRIBUTE_COLUMN = re.compile(re.escape(_ATTRIBUTE) + ATTRIBUTE_NAME)
_SPACE = re.compile(r"[ \t\r\n]*")
# Numbers are read where a row is decoded: converting a long one takes quadratic time.
_JSON = json.JSONDecoder(parse_int=bool, parse_float=bool)


class ImportedUser(UserWanted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user of the file: the fields of a new account, and the hash of a password."""

    password_hash: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    groups: str | list[str] = ""
    attributes: dict[str, object] = msgspec.field(default_factory=dict[str, object])


OPTIONAL = frozenset(Profile.__struct_fields__)
"""Fields that a user is imported without if they break a rule."""

_NESTED = ("address", "attributes")
COLUMNS = tuple(
    name
    for field in msgspec.structs.fields(ImportedUser)
    if (name := field.encode_name) not in _NESTED
) + tuple(f"{_ADDRESS}{field.encode_name}" for field in msgspec.structs.fields(PostalAddress))
"""Every column of a CSV file, except those of declared attributes."""


_PASSWORD = "password"
_HEADINGS = (*COLUMNS, _PASSWORD)
_BOOLEANS = ("email_verified", "phone_number_verified")
_TRUE = ("true", "1", "yes", "wahr", "ja", "vrai", "oui", "verdadero", "sí")
_FALSE = ("false", "0", "no", "falsch", "nein", "faux", "non", "falso")
"""What spreadsheets in English, German, French and Spanish write, and what people type."""


def boolean_text(text: str) -> str:
    """Return the text of a cell as `true` or `false` if it means so; another text as it is."""
    word = text.lower()
    if word in _TRUE:
        return "true"
    return "false" if word in _FALSE else text


def attribute_column(name: str) -> str:
    """Return the column of a declared attribute."""
    return f"{_ATTRIBUTE}{name}"


class _Names(msgspec.Struct, frozen=True):
    """The fields of a row that name its user, unchecked."""

    username: object = ""
    email: object = ""


_Rows = Iterator[tuple[int, str | Reason, _Names]]
"""The line, the record or what is wrong with it, and the names of each row."""


def format_of(name: str, content: bytes) -> FileFormat:
    """Return the format of a file, by its name or else by its first character.

    Some systems export one object on each line to a file with the name of JSON.
    """
    ending = name.lower().rpartition(".")[2]
    if ending == FileFormat.CSV:
        return FileFormat.CSV
    line = content.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0].rstrip()
    if line.startswith(b"{") and line.endswith(b"}"):
        return FileFormat.NDJSON
    is_json = line.startswith((b"[", b"{")) or ending == FileFormat.JSON
    return FileFormat.JSON if is_json else FileFormat.CSV


def read_file(form: FileFormat, content: bytes, most: int) -> Iterator[ImportRow]:
    """Read the rows, each unchecked except for duplicates within the file.

    Raises FileFault with what is wrong with the file as a whole, as late as at its last row.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileFault("file.encoding") from None
    rows = _READERS[form](text)
    seen: dict[str, int] = {}
    count = 0
    for count, (line, data, names) in enumerate(rows, 1):
        if count > most:
            raise FileFault("file.users", most=most)
        yield _row(count, line, data, names, seen)
    if not count:
        raise FileFault("file.empty")


def decode(kind: ImportKind, data: str) -> tuple[ImportedUser, tuple[Reason, ...]] | Reason:
    """Return the record of a row and why claims are not in it, or what is wrong with the row."""
    try:
        value: object = msgspec.json.decode(data)
    except msgspec.ValidationError:
        return reason("", "row.number")
    except (msgspec.DecodeError, RecursionError):
        return reason("", "row.json")
    # A cell is text: a number or true is meant where the field takes one.
    strict = kind is ImportKind.JSON
    left = list[Reason]()
    while isinstance(imported := _converted(value, strict=strict), Reason):
        name = imported.field.partition("/")[0]
        if name not in OPTIONAL or imported.code == "unknown" or not isinstance(value, dict):
            return imported
        left.append(imported)
        members = cast("Mapping[str, object]", value)
        value = {key: member for key, member in members.items() if key != name}
    return imported, tuple(left)


def _converted(value: object, *, strict: bool) -> ImportedUser | Reason:
    try:
        return msgspec.convert(value, type=ImportedUser, strict=strict)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        if fault.code:
            return reason(fault.field, fault.code)
        declared = inspect.type_info(ImportedUser)
        for name in filter(None, fault.field.split("/")):
            declared, value = _field(declared, name), cast("dict[str, object]", value)[name]
        code, limits = _code(declared, value, strict=strict)
        return reason(fault.field, code, **limits)


def _field(declared: inspect.Type, name: str) -> inspect.Type:
    """Return the type of a field of a struct, without what says that it may be absent."""
    fields = declared.fields if isinstance(declared, inspect.StructType) else ()
    field_type = next(field.type for field in fields if field.encode_name == name)
    types = field_type.types if isinstance(field_type, inspect.UnionType) else (field_type,)
    plain = (member.type if isinstance(member, inspect.Metadata) else member for member in types)
    return next(member for member in plain if not isinstance(member, inspect.CustomType))


def _code(declared: inspect.Type, value: object, *, strict: bool) -> tuple[str, dict[str, int]]:
    """Return the code of why a value does not have the declared type, and the limit it breaks."""
    match declared, value:
        case inspect.StrType(min_length=int() as least), str() if len(value) < least:
            return "length.none", {}
        case inspect.StrType(max_length=int() as most), str() if len(value) > most:
            return "length.most", {"most": most}
        case inspect.StrType(pattern=pattern), str():
            return ("text.controls" if pattern == NO_CONTROLS else "claim.email"), {}
        case inspect.StrType(), _:
            return "type.string", {}
        case inspect.IntType(), _:
            number = _number(value, strict=strict)
            if number is None:
                return "type.integer", {}
            if declared.ge is not None and number < declared.ge:
                return "number.least", {"least": declared.ge}
            return "number.most", {"most": declared.le or 0}
        case inspect.BoolType(), _:
            return "type.boolean", {}
        case _:
            return "type.object", {}


def _number(value: object, *, strict: bool) -> int | None:
    try:
        return msgspec.convert(value, type=int, strict=strict)
    except msgspec.ValidationError:
        return None


def shown_text(value: object) -> str:
    """Return the beginning of a text without control characters, "" for another value."""
    return printable(value[:LONGEST_SHOWN]) if isinstance(value, str) else ""


def _row(
    position: int, line: int, data: str | Reason, names: _Names, seen: dict[str, int]
) -> ImportRow:
    username, email = shown_text(names.username), shown_text(names.email)
    row = ImportRow(position, line, username, email)
    if isinstance(data, Reason):
        return _faulty(row, data)
    if len(data) > LONGEST_ROW:
        return _faulty(row, reason("", "row.size", size=LONGEST_ROW // 1024))
    for name, text in (("email", email), ("username", username)):
        key = f"{name} {fold(text)}"
        if text and (other := seen.setdefault(key, line)) != line:
            return _faulty(row, reason(name, "row.repeated", row=other))
    return replace(row, data=data)


def _faulty(row: ImportRow, why: Reason) -> ImportRow:
    return replace(row, state=RowState.FAULTY, reason=stored_reasons([why]))


def _read_csv(text: str) -> _Rows:
    heading = text.partition("\n")[0]
    mark = max(_MARKS, key=heading.count)
    reader = csv.reader(_lines(text), delimiter=mark, strict=True)
    number = 0
    try:
        columns = [_column(cell) for cell in _cells(next(reader, list[str]()))]
        _check_columns(columns)
        number = 1
        for number, row in enumerate(reader, 2):
            cells = _cells(row)
            if not cells:
                continue
            values = dict(zip(columns, cells, strict=False))
            names = _Names(values.get("username", ""), values.get("email", ""))
            if len(cells) > len(columns):
                yield number, reason("", "row.cells"), names
            else:
                yield number, msgspec.json.encode(_nested(values)).decode(), names
    except csv.Error as error:
        code = next((code for part, code in _NOT_CSV if part in str(error)), "file.csv")
        raise FileFault(code, row=number + 1) from None


def _lines(text: str) -> Iterator[str]:
    for line in StringIO(text, newline=""):
        if len(line) > 2 * LONGEST_ROW:
            raise csv.Error("field larger than a line may be")
        yield line


def _cells(row: list[str]) -> list[str]:
    """Return the texts of the cells, without empty ones at the end: spreadsheets add them."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _column(heading: str) -> str:
    """Return the column that a heading names in any case; another heading as it is."""
    name = heading.lower()
    if name.startswith(_ATTRIBUTE):
        return attribute_column(heading[len(_ATTRIBUTE) :])
    return name if name in _HEADINGS else heading


def _check_columns(columns: list[str]) -> None:
    if _PASSWORD in columns:
        raise FileFault("file.password")
    unknown = dict.fromkeys(
        f'"{name}"'
        for name in columns
        if name not in COLUMNS and _ATTRIBUTE_COLUMN.fullmatch(name) is None
    )
    if unknown:
        names = ", ".join((*COLUMNS, attribute_column("NAME")))
        raise FileFault("file.column", column=shown_text(", ".join(unknown)), columns=names)
    for name, times in Counter(columns).items():
        if times > 1:
            raise FileFault("file.columns", column=name)
    for name in ("username", "email"):
        if name not in columns:
            raise FileFault("file.heading", column=name)


def _nested(values: Mapping[str, str]) -> Mapping[str, object]:
    nested: dict[str, object] = {}
    rest = {
        name: boolean_text(cell) if name in _BOOLEANS else cell
        for name, cell in values.items()
        if cell
    }
    for member, prefix in zip(_NESTED, (_ADDRESS, _ATTRIBUTE), strict=True):
        inside = [name for name in rest if name.startswith(prefix)]
        if inside:
            nested[member] = {name.removeprefix(prefix): rest.pop(name) for name in inside}
    return {**rest, **nested}


def _read_json(text: str) -> _Rows:
    # Element by element: a list of all of them takes many times the memory of the file.
    at = _after_space(text, 0)
    if not text.startswith("[", at):
        _end_of_element(text, at)
        raise FileFault("file.array")
    at = _after_space(text, at + 1)
    number = 0
    while number or not text.startswith("]", at):
        number += 1
        end = _end_of_element(text, at)
        yield number, *_named(text[at:end])
        at = _after_space(text, end)
        if text.startswith("]", at):
            break
        if not text.startswith(",", at):
            raise _not_json(text, at)
        at = _after_space(text, at + 1)
    if _after_space(text, at + 1) < len(text):
        raise _not_json(text, at + 1)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _end_of_element(text: str, at: int) -> int:
    try:
        return _JSON.raw_decode(text, at)[1]
    except RecursionError:
        raise FileFault("file.array") from None
    except json.JSONDecodeError as error:
        raise _not_json(text, error.pos) from None


def _not_json(text: str, at: int) -> FileFault:
    if not text[at:].strip():
        return FileFault("file.end")
    return FileFault("file.json", line=text.count("\n", 0, at) + 1)


def _read_ndjson(text: str) -> _Rows:
    # Only these end a line: the text of a cell may hold other line separators.
    for number, line in enumerate(StringIO(text, newline="\n"), 1):
        if line.strip():
            yield number, *_named(line.strip())


def _named(data: str) -> tuple[str, _Names]:
    """Return the record and the names of its user; no record if it is not JSON."""
    if "\x00" in data:
        # The decoder skips it in a member that it does not know; PostgreSQL does not store it.
        return "", _Names()
    try:
        return data, msgspec.json.decode(data, type=_Names)
    except msgspec.ValidationError:
        return data, _Names()
    except (msgspec.DecodeError, RecursionError):
        return "", _Names()


_READERS = {
    FileFormat.CSV: _read_csv,
    FileFormat.JSON: _read_json,
    FileFormat.NDJSON: _read_ndjson,
}


Json = Mapping[str, object]


def text_values_in(value: object) -> Mapping[str, str]:
    """Return the members of an object whose values are texts; "" for each other value."""
    pairs = cast("Json", value if isinstance(value, dict) else {}).items()
    return {name: text_in(member) for name, member in pairs}


def object_in(value: object) -> Json:
    """Return the object that a text holds as JSON, or the object itself."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return {}
    return cast("Json", value if isinstance(value, dict) else {})


def objects_in(value: object) -> Sequence[Json]:
    """Return the objects of a list."""
    listed = cast("list[object]", value if isinstance(value, list) else [])
    return [cast("Json", member) for member in listed if isinstance(member, dict)]


def texts_in(value: object) -> Sequence[str]:
    """Return the texts of a list."""
    listed = cast("list[object]", value if isinstance(value, list) else [])
    return [text for text in listed if isinstance(text, str)]


def tuple_in(value: object) -> tuple[str, ...]:
    """Return a tuple of texts; an empty one for any other value."""
    return cast("tuple[str, ...]", value) if isinstance(value, tuple) else ()


def text_in(value: object) -> str:
    """Return a text; "" for any other value."""
    return value if isinstance(value, str) else ""
