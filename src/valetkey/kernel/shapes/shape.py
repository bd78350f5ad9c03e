"""Shape: the interface of every way to declare fields, and the schema of problems (RFC 9457)."""

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode

Document = Mapping[str, object]
"""A JSON object."""

RESERVED = ("id", "created_at", "changed_at", "version")
"""Fields that every object shows and that cannot be written or declared."""


MOST_ERRORS = 100
"""Maximum number of errors reported for one document."""


class FieldError(Struct, frozen=True):
    """An error in one field: a JSON pointer (RFC 6901) and a sentence.

    If a JSON Schema rejects the value: the keyword that rejects it, and the value of the keyword.
    """

    pointer: str
    detail: str
    keyword: str = ""
    allowed: object = None


class Invalid(Exception):
    """An invalid document: its field errors, and the reference if it has one."""

    def __init__(self, errors: Sequence[FieldError], reference: str = "") -> None:
        """Store `errors`, of which the first 100 are reported."""
        super().__init__(f"{len(errors)} fields are wrong")
        self.errors = tuple(errors[:MOST_ERRORS])
        self.reference = reference


class Shape(Protocol):
    """The fields of an object that callers may write."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return every field, in display order."""
        ...

    @property
    def defaults(self) -> Document:
        """Return the values of fields omitted on creation."""
        ...

    @property
    def required(self) -> frozenset[str]:
        """Return the fields without a default; the others may be absent."""
        ...

    @property
    def schema(self) -> Document:
        """Return the shape as a JSON Schema (2020-12) without references."""
        ...

    def validate(self, given: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
        """Validate the fields that are present; return errors and values. Absence is no error."""
        ...

    def fault(self, name: str, value: object) -> str:
        """Return what is wrong with a value of this field alone; "" for nothing."""
        ...


EXACT = 2**53
"""JSON parsers agree on integers between this and its negative."""


def whole(value: object) -> object:
    """Return `value` with 1 for each 1.0: one number in JSON, and an integer in JSON Schema."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= EXACT else value
    if isinstance(value, list):
        return [whole(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: whole(each) for name, each in cast("dict[str, object]", value).items()}
    return value


def pointer(*path: str | int) -> str:
    """Return the JSON pointer to the value at `path` (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def unknown(name: str) -> FieldError:
    """Return the error of a field that cannot be written."""
    reserved = name in RESERVED
    detail = "the server sets this field" if reserved else "this field cannot be written"
    return FieldError(pointer(name), detail)


def is_shown(record: Document, name: str, value: object) -> bool:
    """Return whether a record has this member with a value that is equal in JSON."""
    return name in record and _encoded(record[name]) == _encoded(value)


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(whole(value), order="sorted")


def problem_schema(pointer: str) -> Document:
    """Return the schema; `pointer` is an example of a field with an error."""
    return {
        "type": "object",
        "description": "Why the request was refused (RFC 9457).",
        "properties": {
            "type": {"type": "string", "description": "A page that explains the code."},
            "title": {"type": "string", "examples": ["Invalid Token Error"]},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {
                "type": "string",
                "description": "The error code. Later versions may add some.",
                "x-extensible-enum": sorted(code.value for code in ErrorCode),
                "examples": [ErrorCode.INVALID_TOKEN.value],
            },
            "reference": {
                "type": "string",
                "description": "The argument of `valetkey explain`.",
                "examples": ["VK-7F3K-9QXM-2RTD"],
            },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "pointer": {"type": "string", "examples": [pointer]},
                        "detail": {"type": "string", "examples": ["this field is required"]},
                    },
                    "required": ["pointer", "detail"],
                },
            },
        },
        "required": ["type", "title", "status", "detail", "code", "reference"],
    }
