"""Scalar fields: those that lists can sort and filter by, and their spelling in a query."""

import re
from collections.abc import Mapping
from enum import StrEnum
from math import inf, isfinite
from typing import cast

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,25}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
LARGEST = 10**15 - 1
"""Integers in a query lie between this and its negative."""

_TRUTH = {"true": True, "false": False}
_NULL = {"type": "null"}


class Scalar(StrEnum):
    """The type of a field that holds a single value; the field may also be null."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"

    def read(self, text: str) -> str | int | float | bool | None:
        """Parse the value in a query; return None if it is not of this type."""
        match self:
            case Scalar.STRING:
                return text
            case Scalar.INTEGER:
                return int(text) if _WHOLE.fullmatch(text) else None
            case Scalar.NUMBER:
                number = float(text) if _NUMBER.fullmatch(text) else inf
                return number if isfinite(number) else None
            case Scalar.BOOLEAN:
                return _TRUTH.get(text)


WORDS: Mapping[Scalar, str] = {
    Scalar.STRING: "text",
    Scalar.INTEGER: "a whole number",
    Scalar.NUMBER: "a number",
    Scalar.BOOLEAN: "true or false",
}
"""The name of each type in a sentence."""


def scalar_of(schema: Mapping[str, object]) -> Scalar | None:
    """Return the scalar type of a field with this schema; None if it does not have exactly one."""
    schema = without_null(schema)
    if "anyOf" in schema:
        return None
    kind = schema.get("type")
    if isinstance(kind, list):
        names = [each for each in cast("list[object]", kind) if each != "null"]
        kind = names[0] if len(names) == 1 else None
    if kind is None and _names_texts(schema):
        return Scalar.STRING
    return Scalar(kind) if isinstance(kind, str) and kind in tuple(Scalar) else None


def without_null(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return the one alternative to null in a schema, or the schema if it has several or none."""
    several = schema.get("anyOf")
    if not isinstance(several, list):
        return schema
    rest = [each for each in cast("list[object]", several) if each != _NULL]
    if len(rest) != 1 or not isinstance(rest[0], dict):
        return schema
    return without_null(cast("dict[str, object]", rest[0]))


def _names_texts(schema: Mapping[str, object]) -> bool:
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not isinstance(choices, list) or not choices:
        return False
    return all(isinstance(each, str) for each in cast("list[object]", choices))
