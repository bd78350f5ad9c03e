"""Inline the references of a JSON Schema; only local, acyclic references are allowed."""

from collections.abc import Mapping, Sequence
from typing import cast

MOST = 5_000
"""Maximum number of schemas in one file, each reference counted with everything it refers to."""

_MAPS = frozenset(("properties", "patternProperties", "dependentSchemas"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_ONE = frozenset(
    (
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
    )
)
_GONE = frozenset(("$defs", "$comment", "$schema", "$ref"))
_LOCAL = "#/"


class NotLocal(Exception):
    """A reference out of the file, to nothing, or in a cycle; the message explains which."""


def inlined(schema: Mapping[str, object]) -> dict[str, object]:
    """Return `schema` with every reference replaced by its target. Raises NotLocal."""
    return _Inlining(schema).of(schema, ())


def inside(schema: Mapping[str, object]) -> Sequence[tuple[str, Mapping[str, object]]]:
    """Iterate over the schemas directly inside this one, each with its path."""
    found: list[tuple[str, object]] = []
    for keyword, value in schema.items():
        if keyword in _MAPS | {"$defs"} and isinstance(value, dict):
            below = cast("dict[str, object]", value)
            found += [(f"{keyword}/{name}", each) for name, each in below.items()]
        elif keyword in _LISTS and isinstance(value, list):
            several = cast("list[object]", value)
            found += [(f"{keyword}/{index}", each) for index, each in enumerate(several)]
        elif keyword in _ONE:
            found.append((keyword, value))
    return [
        (place, cast("Mapping[str, object]", each))
        for place, each in found
        if isinstance(each, dict)
    ]


class _Inlining:
    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._count = 0

    def of(self, schema: Mapping[str, object], on_the_way: tuple[str, ...]) -> dict[str, object]:
        self._count += 1
        if self._count > MOST:
            raise NotLocal(f"with every reference in place it is more than {MOST} schemas")
        made: dict[str, object] = {}
        for keyword, value in schema.items():
            if keyword in _GONE:
                continue
            if keyword in _MAPS and isinstance(value, dict):
                below = cast("dict[str, object]", value)
                made[keyword] = {name: self._any(each, on_the_way) for name, each in below.items()}
            elif keyword in _LISTS and isinstance(value, list):
                several = cast("list[object]", value)
                made[keyword] = [self._any(each, on_the_way) for each in several]
            elif keyword in _ONE:
                made[keyword] = self._any(value, on_the_way)
            else:
                made[keyword] = value
        if "$ref" not in schema:
            return made
        reference = schema["$ref"]
        if reference in on_the_way:
            raise NotLocal(f"$ref {reference!r} leads back to itself")
        if not isinstance(reference, str):
            raise NotLocal("a $ref is no text")
        target = self.of(self._found(reference), (*on_the_way, reference))
        # Keywords beside a reference apply too (2020-12).
        return target if not made else {**made, "allOf": [*_several(made), target]}

    def _any(self, value: object, on_the_way: tuple[str, ...]) -> object:
        if not isinstance(value, dict):
            return value
        return self.of(cast("dict[str, object]", value), on_the_way)

    def _found(self, reference: str) -> Mapping[str, object]:
        if not reference.startswith(_LOCAL):
            raise NotLocal(f"$ref {reference!r} leads out of this file; write '#/$defs/…'")
        here: object = self._root
        for step in reference.removeprefix(_LOCAL).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            here = _member(here, name)
        if not isinstance(here, dict):
            raise NotLocal(f"$ref {reference!r} leads to nothing in this file")
        return cast("dict[str, object]", here)


def _member(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def _several(made: Mapping[str, object]) -> list[object]:
    there = made.get("allOf")
    return cast("list[object]", there) if isinstance(there, list) else []
