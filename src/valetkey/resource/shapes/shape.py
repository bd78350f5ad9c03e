"""Shape: what every way to declare fields can do; what is wrong stands at its JSON pointer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Document = Mapping[str, object]
"""A JSON object."""

RESERVED = ("id", "created_at", "changed_at", "version")
"""What every object shows and nobody writes; no field is called so."""


MOST_ERRORS = 100
"""Errors told about one document."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field: a JSON pointer (RFC 6901) and a sentence."""

    pointer: str
    detail: str


class Invalid(Exception):
    """A document that does not fit: the fields that are wrong, and the reference if it has one."""

    def __init__(self, errors: Sequence[FieldError], reference: str = "") -> None:
        """Say no because of `errors`, of which the first 100 are told."""
        super().__init__(f"{len(errors)} fields are wrong")
        self.errors = tuple(errors[:MOST_ERRORS])
        self.reference = reference


class Shape(Protocol):
    """The fields of an object that callers may write."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every field, in the order in which it is shown."""
        ...

    @property
    def defaults(self) -> Document:
        """What a field has that was left out on creation."""
        ...

    @property
    def required(self) -> frozenset[str]:
        """Fields that nothing stands in for; the others may be absent."""
        ...

    @property
    def schema(self) -> Document:
        """The shape as a JSON Schema (2020-12) without references."""
        ...

    def judge(self, given: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
        """What is wrong with the fields that are there, and their values. Absence is no fault."""
        ...


def pointer(*path: str | int) -> str:
    """The JSON pointer to the value at `path` (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def unknown(name: str) -> FieldError:
    """The error of a field that cannot be written."""
    reserved = name in RESERVED
    detail = "the server sets this field" if reserved else "there is no such field to write"
    return FieldError(pointer(name), detail)
