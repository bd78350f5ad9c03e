"""Files of users: CSV with a heading, a JSON array, or NDJSON; read row by row."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from io import StringIO
from typing import Annotated

import msgspec

from valetkey.authorization.actions.user_input import PostalAddress, UserWanted
from valetkey.authorization.model.account.user import ATTRIBUTE_NAME, fold
from valetkey.authorization.model.account.user_import import ImportKind, ImportRow, RowState
from valetkey.authorization.protocol.register.faults import fault_of
from valetkey.kernel.refusal import OperatorError

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
_SENTENCES = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"Expected `str` of length >= 1", "must not be empty"),
        (r"Expected `str` of length <= (\d+)", r"must have at most \1 characters"),
        (r"Expected `int` >= (\d+)", r"must be at least \1"),
        (r"Expected `int` <= (\d+)", r"must be at most \1"),
        (r"Number out of range", "the row has a number that is out of range"),
        (r"Expected `str`, got .*", "must be text"),
        (r"Expected `int`, got .*", "must be a whole number"),
        (r"Expected `bool`, got .*", "must be true or false"),
        (r"Expected `object`, got .*", "must be an object"),
        (r"must match .*@.*", "must be an email address"),
        (r"must match .*", "must not have control characters"),
    )
)
"""Errors of the JSON decoder about a type, a length or a pattern, with the sentences shown."""

_NOT_CSV = (
    ("unexpected end of data", ": a quotation mark is not closed"),
    ("expected after", ": text follows a closing quotation mark"),
    ("field larger than", ": a cell is too long"),
)
"""Errors of the CSV parser, and the sentences shown for them."""

_ATTRIBUTE_COLUMN = re.compile(re.escape(_ATTRIBUTE) + ATTRIBUTE_NAME)
_SPACE = re.compile(r"[ \t\r\n]*")
# Numbers are read where a row is decoded: converting a long one takes quadratic time.
_JSON = json.JSONDecoder(parse_int=bool, parse_float=bool)


class ImportedUser(UserWanted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user of the file: the fields of a new account, and the hash of a password."""

    password_hash: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    attributes: dict[str, object] = msgspec.field(default_factory=dict[str, object])


_NESTED = ("address", "attributes")
COLUMNS = tuple(
    name
    for each in msgspec.structs.fields(ImportedUser)
    if (name := each.encode_name) not in _NESTED
) + tuple(f"{_ADDRESS}{each.encode_name}" for each in msgspec.structs.fields(PostalAddress))
"""Every column of a CSV file, except those of declared attributes."""


def attribute_column(name: str) -> str:
    """Return the column of a declared attribute."""
    return f"{_ATTRIBUTE}{name}"


class _Names(msgspec.Struct, frozen=True):
    """The fields of a row that name its user, unchecked."""

    username: object = ""
    email: object = ""


_Rows = Iterator[tuple[int, str, _Names]]


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

    Raises OperatorError with what is wrong with the file as a whole, as late as at its last row.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OperatorError("the file is not UTF-8: save it as CSV UTF-8") from None
    rows = _READERS[form](text)
    seen: dict[str, int] = {}
    count = 0
    for count, (line, data, names) in enumerate(rows, 1):
        if count > most:
            raise OperatorError(f"the file has more than {most} users: split it")
        yield _row(count, line, data, names, seen)
    if not count:
        raise OperatorError("the file has no users")


def decode(kind: ImportKind, data: str) -> ImportedUser | str:
    """Return the record of a row, or what is wrong with it."""
    try:
        found = msgspec.json.decode(data)
        # A cell is text: a number or true is meant where the field takes one.
        return msgspec.convert(found, type=ImportedUser, strict=kind is ImportKind.JSON)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        said = _sentence(fault.detail)
        return f"{fault.field}: {said}" if fault.field else said
    except (msgspec.DecodeError, RecursionError):
        return "the row is not JSON"


def _sentence(detail: str) -> str:
    found = ((pattern.fullmatch(detail), said) for pattern, said in _SENTENCES)
    return next((match.expand(said) for match, said in found if match), detail)


def printable(text: object) -> str:
    """Return the beginning of a text without control characters, "" for another value."""
    if not isinstance(text, str):
        return ""
    return "".join(each if each.isprintable() else " " for each in text[:LONGEST_SHOWN])


def _row(position: int, line: int, data: str, names: _Names, seen: dict[str, int]) -> ImportRow:
    username, email = printable(names.username), printable(names.email)
    row = ImportRow(position, line, username, email, data=data)
    if len(data) > LONGEST_ROW:
        return _faulty(row, f"the row has more than {LONGEST_ROW // 1024} KiB")
    for name, text in (("email", email), ("username", username)):
        key = f"{name} {fold(text)}"
        if text and (other := seen.setdefault(key, line)) != line:
            return _faulty(row, f"{name}: the same as in row {other}")
    return row


def _faulty(row: ImportRow, reason: str) -> ImportRow:
    return ImportRow(row.position, row.line, row.username, row.email, RowState.FAULTY, reason)


def _read_csv(text: str) -> _Rows:
    heading = text.partition("\n")[0]
    mark = max(_MARKS, key=heading.count)
    reader = csv.reader(_lines(text), delimiter=mark, strict=True)
    number = 0
    try:
        columns = [name.strip() for name in next(reader, list[str]())]
        _check_columns(columns)
        number = 1
        for number, cells in enumerate(reader, 2):
            if not any(cells):
                continue
            if len(cells) > len(columns):
                raise OperatorError(f"row {number} has more cells than the heading")
            said = {name: cell.strip() for name, cell in zip(columns, cells, strict=False)}
            data = msgspec.json.encode(_nested(said)).decode()
            yield number, data, _Names(said.get("username", ""), said.get("email", ""))
    except csv.Error as error:
        why = next((said for part, said in _NOT_CSV if part in str(error)), "")
        raise OperatorError(f"row {number + 1} is not CSV{why}") from None


def _lines(text: str) -> Iterator[str]:
    for line in StringIO(text, newline=""):
        if len(line) > 2 * LONGEST_ROW:
            raise csv.Error("field larger than a line may be")
        yield line


def _check_columns(columns: list[str]) -> None:
    if "password" in columns:
        raise OperatorError('the column "password": only hashes are imported, as "password_hash"')
    for name in columns:
        if name not in COLUMNS and _ATTRIBUTE_COLUMN.fullmatch(name) is None:
            known = ", ".join((*COLUMNS, attribute_column("NAME")))
            raise OperatorError(f'the column "{printable(name)}" is unknown; known are {known}')
        if columns.count(name) > 1:
            raise OperatorError(f'there are two columns "{name}"')
    for name in ("username", "email"):
        if name not in columns:
            raise OperatorError(f'the first row is the heading, and has no "{name}"')


def _nested(said: Mapping[str, str]) -> Mapping[str, object]:
    nested: dict[str, object] = {}
    rest = {name: cell for name, cell in said.items() if cell}
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
        raise OperatorError("the file is not a JSON array of objects")
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
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _end_of_element(text: str, at: int) -> int:
    try:
        return _JSON.raw_decode(text, at)[1]
    except RecursionError:
        raise OperatorError("the file is not a JSON array of objects") from None
    except json.JSONDecodeError as error:
        raise _not_json(text, error.pos) from None


def _not_json(text: str, at: int) -> OperatorError:
    if not text[at:].strip():
        return OperatorError("the file is not JSON: it ends too early")
    line = text.count("\n", 0, at) + 1
    return OperatorError(f"the file is not JSON: error in line {line}")


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
