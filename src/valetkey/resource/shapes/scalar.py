"""Scalars: fields that lists can be sorted and filtered by, and how a query writes their values."""

import re
from collections.abc import Mapping
from enum import StrEnum
from math import inf, isfinite
from typing import cast

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,25}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
LARGEST = 10**15 - 1
"""Whole numbers that a query can say lie between this and its negative."""

_TRUTH = {"true": True, "false": False}
_NULL = {"type": "null"}


class Scalar(StrEnum):
    """What a field holds, if it holds one simple thing; it may also hold null."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"

    def read(self, text: str) -> str | int | float | bool | None:
        """The value that a query writes so; None if it writes none."""
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
"""How each is called in a sentence."""


def scalar_of(schema: Mapping[str, object]) -> Scalar | None:
    """What a field of this schema holds; None if it is not always the same simple thing."""
    several = schema.get("anyOf")
    if isinstance(several, list):
        rest = [each for each in cast("list[object]", several) if each != _NULL]
        if len(rest) != 1 or not isinstance(rest[0], dict):
            return None
        return scalar_of(cast("dict[str, object]", rest[0]))
    kind = schema.get("type")
    if isinstance(kind, list):
        names = [each for each in cast("list[object]", kind) if each != "null"]
        kind = names[0] if len(names) == 1 else None
    if kind is None and _names_texts(schema):
        return Scalar.STRING
    return Scalar(kind) if isinstance(kind, str) and kind in tuple(Scalar) else None


def _names_texts(schema: Mapping[str, object]) -> bool:
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not isinstance(choices, list) or not choices:
        return False
    return all(isinstance(each, str) for each in cast("list[object]", choices))
