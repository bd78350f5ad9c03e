"""Parse bodies strictly, without duplicates: forms, query strings, uploads and JSON.

RFC 6749 appendix B, RFC 7578. What RFC 8259 leaves to the implementation, such as duplicate names
and large numbers, is refused as in I-JSON (RFC 7493).
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NoReturn, cast
from urllib.parse import unquote, unquote_to_bytes

from valetkey.kernel.refusal import ErrorCode, Refused

FORM_BYTES = 64 * 1024
FIELDS = 100

_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Only a plausible parameter name is repeated in an error: anything else could be a misplaced
# secret.
_NAME = re.compile(r"[a-z][a-z_]{0,39}")


@dataclass(frozen=True, slots=True)
class FormFile:
    """A file of an upload: its name as sent by the browser, and its unchecked bytes."""

    name: str
    content: bytes = field(repr=False)


class Form:
    """The fields of a form or query string, each name once unless the parser allowed repetition.

    The repr shows only their number, because values are often secrets.
    """

    __slots__ = ("_files", "_first", "_more")

    def __init__(
        self,
        first: Mapping[str, str],
        more: Mapping[str, tuple[str, ...]] | None = None,
        files: Mapping[str, FormFile] | None = None,
    ) -> None:
        """Keep the first value of each name, and in `more` all values of repeated names."""
        self._first = first
        self._more = more or {}
        self._files = files or {}

    def get(self, name: str) -> str | None:
        """Return the value of `name`, or None if it is absent; an empty field has the value ""."""
        return self._first.get(name)

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of `name`, in the order sent."""
        more = self._more.get(name)
        if more is not None:
            return more
        value = self._first.get(name)
        return () if value is None else (value,)

    def file(self, name: str) -> FormFile | None:
        """Return the uploaded file of this name; None unless one was chosen."""
        upload = self._files.get(name)
        return None if upload is None or not (upload.name or upload.content) else upload

    def without_empty(self) -> "Form":
        """Return the form without the fields whose value is empty."""
        if "" not in self._first.values() and not self._more:
            return self
        kept = {name: [value for value in self.all(name) if value] for name in self._first}
        first = {name: values[0] for name, values in kept.items() if values}
        more = {name: tuple(values) for name, values in kept.items() if len(values) > 1}
        return Form(first, more, self._files)

    @property
    def names(self) -> tuple[str, ...]:
        """Return each name once, in the order sent."""
        return tuple(self._first)

    def __contains__(self, name: str) -> bool:
        return name in self._first

    def __len__(self) -> int:
        return len(self._first)

    def __repr__(self) -> str:
        return f"Form({len(self._first)} fields)"


EMPTY = Form({})


def read_form(body: bytes, *, opaque: Collection[str] = (), multiple: Collection[str] = ()) -> Form:
    """Return the fields of an `application/x-www-form-urlencoded` body of at most 64 KiB.

    Fields named in `opaque` may contain control characters; those in `multiple` may be repeated.
    Raises Refused (invalid_request) for more than 100 fields, a repeated name, an empty name,
    invalid percent-encoding, anything but UTF-8, and control characters.
    """
    if not body:
        return EMPTY
    if len(body) > FORM_BYTES:
        _refuse("the request has more than 64 KiB", "form.too_large")
    if not body.isascii():
        _refuse("the request must be percent-encoded UTF-8", "form.not_ascii")
    return _read(body.decode("ascii"), opaque, multiple)


def read_query(text: str, *, opaque: Collection[str] = (), multiple: Collection[str] = ()) -> Form:
    """Return the fields of a query string, under the rules of `read_form`."""
    if not text:
        return EMPTY
    if len(text) > FORM_BYTES:
        _refuse("the query has more than 64 KiB", "form.too_large")
    if not text.isascii():
        _refuse("the query must be percent-encoded UTF-8", "form.not_ascii")
    return _read(text, opaque, multiple)


def read_parameters(
    sent: bytes | str, *, opaque: Collection[str] = (), multiple: Collection[str] = ()
) -> Form:
    """Return the parameters of an OAuth request or response, from its body or query string.

    A parameter without a value counts as omitted (RFC 6749 sections 3.1 and 3.2). Otherwise under
    the rules of `read_form`: a name that is sent twice is refused, with or without values.
    """
    if isinstance(sent, str):
        form = read_query(sent, opaque=opaque, multiple=multiple)
    else:
        form = read_form(sent, opaque=opaque, multiple=multiple)
    return form.without_empty()


def _read(text: str, opaque: Collection[str], multiple: Collection[str]) -> Form:
    # Printable text contains no control character unless it is percent-encoded.
    if not text.isprintable():
        _refuse("the request contains control characters", "form.control")
    pairs = text.split("&", FIELDS)
    if len(pairs) > FIELDS:
        _refuse("the request has more than 100 parameters", "form.too_many")
    first: dict[str, str] = {}
    more: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        if not pair:
            continue
        name, _, value = pair.partition("=")
        if "%" in pair or "+" in pair:
            name, value = _decode(name), _decode(value)
            if _CONTROL.search(name) or (name not in opaque and _CONTROL.search(value)):
                _refuse(f"{_shown(name)} contains control characters", "form.control")
        if not name:
            _refuse("a parameter has no name", "form.nameless")
        if name not in first:
            first[name] = value
        elif name in multiple:
            more[name] = (*more.get(name, (first[name],)), value)
        else:
            _refuse(f"{_shown(name)} was sent more than once", "form.duplicate")
    return Form(first, more)


def _decode(text: str) -> str:
    text = text.replace("+", " ")
    if "%" not in text:
        return text
    # unquote_to_bytes would keep an invalid "%zz" unchanged.
    if _BAD_PERCENT.search(text):
        _refuse("a % must be followed by two hexadecimal digits", "form.percent")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return _refuse("the request must be percent-encoded UTF-8", "form.not_utf8")


def _shown(name: str) -> str:
    return f"the parameter {name}" if _NAME.fullmatch(name) else "a parameter"


def _refuse(description: str, check: str) -> NoReturn:
    # `from None`: a UnicodeDecodeError contains the bytes that could not be decoded.
    raise Refused.because(ErrorCode.INVALID_REQUEST, description, check) from None


PARTS = 20
"""Maximum number of parts."""

FIELD_BYTES = 8 * 1024
"""Maximum size of a part that is no file."""

_HEADER_BYTES = 2 * 1024
_LONGEST_NAME = 200
_TYPE = re.compile(
    r'multipart/form-data[ \t]*;[ \t]*boundary=(?P<quote>"?)(?P<boundary>[0-9A-Za-z\'()+_,./:=?-]'
    r"{1,70})(?P=quote)",
    re.IGNORECASE,
)
_PART = re.compile(
    r'content-disposition: *form-data; *name="(?P<name>[a-z][a-z_]{0,39})"'
    r'(?:; *filename="(?P<file>[^"]*)")?',
    re.IGNORECASE,
)


def is_multipart(content_type: str) -> bool:
    """Return whether the header names a multipart form with a valid boundary."""
    return _TYPE.fullmatch(content_type.strip(" \t")) is not None


def read_multipart(content_type: str | None, body: bytes) -> Form:
    """Return the fields and files of a body whose size is bounded already.

    Raises Refused (invalid_request) for another structure, more than 20 parts, a repeated name, and
    fields of more than 8 KiB, with control characters, or in anything but UTF-8.
    """
    match = _TYPE.fullmatch((content_type or "").strip(" \t"))
    if match is None:
        _refuse("the body must be multipart/form-data", "upload.type")
    boundary = f"--{match['boundary']}".encode("ascii")
    # The boundary line of the first part has no line break before it.
    parts = (b"\r\n" + body).split(b"\r\n" + boundary, PARTS + 2)
    if len(parts) > PARTS + 2:
        _refuse(f"the upload has more than {PARTS} parts", "upload.too_many")
    if parts[0] or len(parts) < 2 or parts[-1] not in {b"--", b"--\r\n"}:  # noqa: PLR2004
        _refuse("the upload is incomplete", "upload.incomplete")
    fields: dict[str, str] = {}
    files: dict[str, FormFile] = {}
    for part in parts[1:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank or not head.startswith(b"\r\n") or len(head) > _HEADER_BYTES:
            _refuse("a part of the upload is malformed", "upload.part")
        name, file = _described(head)
        if name in fields or name in files:
            _refuse(f"the parameter {name} was sent more than once", "form.duplicate")
        if file is None:
            fields[name] = _text(name, content)
        else:
            files[name] = FormFile(file, content)
    return Form(fields, files=files)


def _described(head: bytes) -> tuple[str, str | None]:
    try:
        lines = head.decode().split("\r\n")
    except UnicodeDecodeError:
        _refuse("the upload must be in UTF-8", "form.not_utf8")
    matches = [match for line in lines if (match := _PART.fullmatch(line)) is not None]
    if len(matches) != 1:
        _refuse("a part of the upload has no name", "form.nameless")
    file = matches[0]["file"]
    return matches[0]["name"], None if file is None else _plain_name(file)


def _plain_name(file: str) -> str:
    """Return the last part of the file's name, printable; browsers escape quotes and breaks."""
    last = unquote(file, errors="replace").replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in last if character.isprintable())[:_LONGEST_NAME]


def _text(name: str, content: bytes) -> str:
    if len(content) > FIELD_BYTES:
        _refuse(f"the parameter {name} has more than 8 KiB", "form.too_large")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        _refuse("the upload must be in UTF-8", "form.not_utf8")
    if _CONTROL.search(text):
        _refuse(f"the parameter {name} contains control characters", "form.control")
    return text


JSON_BYTES = 1024 * 1024
DEPTH = 32

_EXACT = 2**53
_DIGITS = 17  # of 2**53 and its sign
# Possessive, and the closing quote is optional: each byte is examined at most once.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")


def read_json(body: bytes) -> object:
    """Return the value of a JSON body: None, bool, int, float, str, list or dict.

    Raises Refused (invalid_request) for anything but UTF-8 without BOM, more than 1 MiB, more than
    32 levels, a duplicate name in one object, NaN and Infinity, integers beyond 2**53, numbers
    beyond a double, and strings with U+0000 or a lone surrogate, which not every database can
    store.
    """
    if len(body) > JSON_BYTES:
        _refuse("the body has more than 1 MiB", "json.too_large")
    if _depth_exceeds(body):
        _refuse("the body is nested more than 32 levels deep", "json.too_deep")
    try:
        value = cast(
            "object",
            json.loads(
                body.decode(),
                object_pairs_hook=_object,
                parse_constant=_constant,
                parse_int=_integer,
                parse_float=_number,
            ),
        )
    except UnicodeDecodeError:
        _refuse("the body is not UTF-8", "json.not_utf8")
    except (json.JSONDecodeError, RecursionError):
        _refuse("the body is not JSON", "json.malformed")
    # These characters can only be written as escapes.
    if b"\\u" in body:
        _check_text(value)
    return value


def _depth_exceeds(body: bytes) -> bool:
    if body.count(b"[") + body.count(b"{") <= DEPTH:
        return False
    brackets = _STRING.sub(b"", body).translate(_ALIKE, _NO_BRACKET)
    for _ in range(DEPTH):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    # What did not collapse is nested deeper, or is invalid JSON, which the parser reports better.
    return brackets.count(b"[") > DEPTH or b"[]" in brackets


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _refuse("a name appears twice in one object", "json.duplicate")
    return members


def _constant(_: str) -> NoReturn:
    _refuse("NaN and Infinity are not JSON", "json.constant")


def _integer(digits: str) -> int:
    # Length first: int() is slow for thousands of digits and then fails.
    if len(digits) <= _DIGITS:
        number = int(digits)
        if -_EXACT <= number <= _EXACT:
            return number
    return _refuse("an integer is beyond 2**53", "json.integer")


def _number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        _refuse("a number is too large", "json.number")
    return number


def _check_text(value: object) -> None:
    if isinstance(value, str):
        if _NOT_TEXT.search(value):
            _refuse("a string contains U+0000 or half a surrogate pair", "json.text")
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            _check_text(name)
            _check_text(item)
    elif isinstance(value, list):
        for item in cast("Iterable[object]", value):
            _check_text(item)
