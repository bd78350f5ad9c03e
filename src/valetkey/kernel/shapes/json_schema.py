"""JsonSchema: an object's shape from a JSON Schema (2020-12); the only user of jsonschema_rs.

Patterns run on a regex engine whose time is linear in the text, for every pattern. Nothing is
ever fetched: references are local, and inlined before the validator sees them.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, cast

from valetkey.kernel.runtime import import_lazily
from valetkey.kernel.shapes.shape import (
    EXACT,
    MOST_ERRORS,
    RESERVED,
    Document,
    FieldError,
    pointer,
    unknown,
    whole,
)

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
    """Return `schema` with every reference replaced by its target, and every integer bounded.

    Raises NotLocal.
    """
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
        _bound(made)
        if "$ref" not in schema:
            return made
        reference = schema["$ref"]
        if reference in on_the_way:
            raise NotLocal(f"$ref {reference!r} leads back to itself")
        if not isinstance(reference, str):
            raise NotLocal("a $ref is not a text")
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


def _bound(schema: dict[str, object]) -> None:
    """Limit integers, which can also be written as 1e300, to those that every parser reads."""
    kind = schema.get("type")
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
    if "integer" in kinds and "number" not in kinds:
        if "minimum" not in schema and "exclusiveMinimum" not in schema:
            schema["minimum"] = -EXACT
        if "maximum" not in schema and "exclusiveMaximum" not in schema:
            schema["maximum"] = EXACT


def _member(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def _several(made: Mapping[str, object]) -> list[object]:
    there = made.get("allOf")
    return cast("list[object]", there) if isinstance(there, list) else []


if TYPE_CHECKING:
    import jsonschema_rs
else:
    jsonschema_rs = import_lazily("jsonschema_rs")

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_EXPLAINED = 1_000
"""Maximum number of values in a document whose errors are all explained.

Validating is fast, but explaining alternatives takes time quadratic in the size.
"""
_SOMEWHERE = "this does not fit, and is too large to say where"
_TOGETHER = "the fields do not fit together"

FORMATS = frozenset(
    ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid")
)
_KEYWORDS = frozenset(
    (
        *("$comment", "$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf"),
        *("const", "contains", "default", "dependentRequired", "dependentSchemas", "deprecated"),
        *("description", "else", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum"),
        *("format", "if", "items", "maxContains", "maxItems", "maxLength", "maxProperties"),
        *("maximum", "minContains", "minItems", "minLength", "minProperties", "minimum"),
        *("multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems"),
        *("properties", "propertyNames", "required", "then", "title", "type", "uniqueItems"),
    )
)


_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


class UnusableSchema(Exception):
    """A schema that no object can have, with the reason in half a sentence."""


class JsonSchema:
    """The properties of a JSON Schema; an omitted property gets its `default`."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Take a schema of `type: object`. Raises UnusableSchema."""
        _check_keywords(schema, "")
        if schema.get("$schema", DIALECT) not in (DIALECT, DIALECT + "#"):
            raise UnusableSchema(f"$schema must be {DIALECT}")
        _check_dialect(schema)
        try:
            root = inlined(schema)
        except NotLocal as reason:
            raise UnusableSchema(str(reason)) from None
        properties = _properties(root)
        self.names = tuple(properties)
        self.defaults: Document = {
            name: each["default"] for name, each in properties.items() if "default" in each
        }
        self.required = _required(root) - self.defaults.keys()
        self.schema: Document = {**root, "additionalProperties": False}
        # The caller checks absence, which depends on whether this is a creation or a replacement.
        self._validator = _validator({**self.schema, "required": []})
        self._fields = {name: _validator(each) for name, each in properties.items()}
        for error in self._errors(self.defaults):
            raise UnusableSchema(f"the default at {error.pointer} does not fit: {error.detail}")

    def validate(self, given: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
        """Validate the fields and their combination; return at most 100 errors."""
        values = {name: whole(value) for name, value in given.items()}
        return tuple(islice(self._errors(given), MOST_ERRORS)), values

    def fault(self, name: str, value: object) -> str:
        """Return what is wrong with a value of this field alone; "" for nothing."""
        for error in self._fields[name].iter_errors(value):
            return _field_error(error).detail
        return ""

    def _errors(self, given: Document) -> Iterator[FieldError]:
        yield from (unknown(name) for name in given if name not in self._fields)
        known = {name: value for name, value in given.items() if name in self._fields}
        if self._validator.is_valid(known):
            return
        if _is_small(known):
            for error in self._validator.iter_errors(known):
                yield _field_error(error, *error.instance_path)
            return
        wrong = {
            name: value for name, value in known.items() if not self._fields[name].is_valid(value)
        }
        for name, value in wrong.items():
            if not _is_small(value):
                yield FieldError(pointer(name), _SOMEWHERE)
                continue
            for error in self._fields[name].iter_errors(value):
                yield _field_error(error, name, *error.instance_path)
        if not wrong:
            yield FieldError("", _TOGETHER)


def _is_small(value: object) -> bool:
    """Return whether it holds at most `_EXPLAINED` values; reads no more than that many."""
    seen, waiting = 0, [value]
    while waiting:
        here = waiting.pop()
        seen += 1
        below: Sequence[object] = ()
        if isinstance(here, dict):
            below = tuple(cast("Mapping[str, object]", here).values())
        elif isinstance(here, list):
            below = cast("list[object]", here)
        if seen + len(waiting) + len(below) > _EXPLAINED:
            return False
        waiting += below
    return True


def _field_error(error: "jsonschema_rs.ValidationError", *path: str | int) -> FieldError:
    # The message begins with a placeholder for the value.
    detail = error.message.replace('"', "").replace("\n", " ")[:300]
    allowed: object = getattr(error.kind, "value", None)
    return FieldError(pointer(*path), detail, error.kind.name, allowed)


def _validator(schema: Document) -> "jsonschema_rs.Draft202012Validator":
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema),
            validate_formats=True,
            ignore_unknown_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=1 << 20),
            mask="this",
            offline=True,
        )
    except jsonschema_rs.ValidationError as reason:
        raise _unusable(reason) from None


def _check_dialect(schema: Mapping[str, object]) -> None:
    # Before references are resolved, so that a path is that of the file.
    try:
        jsonschema_rs.meta.validate({**schema, "$schema": DIALECT})
    except jsonschema_rs.ValidationError as reason:
        raise _unusable(reason) from None


def _unusable(reason: "jsonschema_rs.ValidationError") -> UnusableSchema:
    place = pointer(*reason.instance_path)
    if reason.instance_path[-1:] == ["type"]:
        return UnusableSchema(f"at {place}: the type is none of {', '.join(_TYPES)}")
    return UnusableSchema(f"at {place or '/'}: {reason.message}")


def _properties(root: Document) -> Mapping[str, Mapping[str, object]]:
    if root.get("type") != "object":
        raise UnusableSchema('its type must be "object"')
    properties = root.get("properties")
    if not isinstance(properties, dict) or not properties:
        raise UnusableSchema("it needs properties")
    if root.get("additionalProperties", False) is not False or "patternProperties" in root:
        raise UnusableSchema("every field is named in properties: unknown ones are always refused")
    for name, each in cast("dict[str, object]", properties).items():
        if name in RESERVED:
            raise UnusableSchema(
                f"the server sets {name} of every object: remove it from properties"
            )
        if not isinstance(each, dict):
            raise UnusableSchema(f"properties/{name} must be an object")
    return cast("dict[str, Mapping[str, object]]", properties)


def _required(root: Document) -> frozenset[str]:
    names = root.get("required", [])
    if not isinstance(names, list):
        raise UnusableSchema("required must be a list of names")
    for name in cast("list[object]", names):
        if name not in cast("dict[str, object]", root["properties"]):
            raise UnusableSchema(f"required names {name!r}, which is not among properties")
    return frozenset(cast("list[str]", names))


def _check_keywords(schema: Mapping[str, object], place: str) -> None:
    for keyword in schema:
        if keyword not in _KEYWORDS:
            close = get_close_matches(keyword, _KEYWORDS, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise UnusableSchema(
                f"at {place or '/'}: the keyword {keyword!r} is unknown here{meant}"
            )
    named = schema.get("format")
    if named is not None and named not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise UnusableSchema(f"at {place}/format: {named!r} is unknown; known are {known}")
    for step, below in inside(schema):
        _check_keywords(below, f"{place}/{step}")
