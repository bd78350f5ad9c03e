"""Shapes: what a JSON object must be, as declared types or as a JSON Schema (2020-12).

Patterns run on a regex engine whose time is linear in the text, for every pattern. Nothing is
ever fetched: references are local, and inlined before the validator sees them.
"""

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Protocol,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec
from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode
from valetkey.kernel.runtime import import_lazily

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

    def validate(self, document: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
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
        return [whole(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: whole(member) for name, member in cast("dict[str, object]", value).items()}
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


_WORDS: Mapping[str, str] = types.MappingProxyType(
    {
        "str": "a string",
        "int": "an integer",
        "float": "a number",
        "bool": "true or false",
        "array": "an array",
        "object": "an object",
        "null": "null",
    }
)
_SIZES: Mapping[str, str] = types.MappingProxyType(
    {"str": "characters", "array": "items", "object": "members"}
)
_BOUNDS: Mapping[str, str] = types.MappingProxyType(
    {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
)
_TYPE = re.compile(r"Expected `([a-z |]+)`, got `([a-z]+)`")
_LENGTH = re.compile(r"Expected `(str|array|object)` of length (<=|>=) (\d+)")
_RANGE = re.compile(r"Expected `(?:int|float)` (<=|>=|<|>) (.+)")
_PATTERN = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_WHERE = re.compile(r" - at `\$.*`$", re.DOTALL)
_OTHER_FORM = "must have the form that the schema describes"
MUST = "must"
"""The member of `Meta.extra` with the sentence about a pattern."""

_NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"


def errors_of(value: object, kind: Any) -> Iterator[FieldError]:
    """Yield each error of a JSON value of the type `kind`: members, items, values of mappings."""
    return _errors(value, kind, ())


def requirement(message: str, kind: Any = None) -> str:
    """Return what a value must be, from the message of msgspec about it."""
    reason = _WHERE.sub("", message)
    if match := _TYPE.fullmatch(reason):
        expected = " or ".join(
            _WORDS.get(type_name, type_name) for type_name in match[1].split(" | ")
        )
        return f"must be {expected}, not {_GIVEN.get(match[2], match[2])}"
    if match := _LENGTH.fullmatch(reason):
        size = _SIZES[match[1]].removesuffix("s" if match[3] == "1" else "")
        return f"must have {_BOUNDS[match[2]]} {match[3]} {size}"
    if match := _RANGE.fullmatch(reason):
        return f"must be {_BOUNDS[match[1]]} {match[2]}"
    if match := _PATTERN.fullmatch(reason):
        pattern = match[1].strip("'\"").replace("\\\\", "\\")
        return "must have no control characters" if pattern == _NO_CONTROLS else _form(kind)
    if reason.startswith("Invalid enum value") and (choices := _choices(kind)):
        return f"must be one of: {', '.join(choices)}"
    return reason.replace("`", "")


_GIVEN: Mapping[str, str] = types.MappingProxyType({**_WORDS, "bool": "a boolean"})


def _form(kind: Any) -> str:
    """Return the sentence about a pattern, or the declared example: people read no pattern."""
    metas = list(_metas(kind))
    if sentences := [meta.extra[MUST] for meta in metas if meta.extra and MUST in meta.extra]:
        return str(sentences[0])
    examples = [example for meta in metas for example in meta.examples or ()]
    return f"must have the form of {examples[0]}" if examples else _OTHER_FORM


def _metas(kind: Any) -> Iterator[msgspec.Meta]:
    if get_origin(kind) is Annotated:
        yield from (meta for meta in kind.__metadata__ if isinstance(meta, msgspec.Meta))
    elif get_origin(kind) in {Union, types.UnionType}:
        for option in get_args(kind):
            yield from _metas(option)


def _errors(value: object, kind: Any, path: tuple[str | int, ...]) -> Iterator[FieldError]:
    inside = False
    for step, below, part in _parts(value, kind):
        for error in _errors(part, below, (*path, step)):
            inside = True
            yield error
    if isinstance(value, dict) and (struct := _struct(kind)) is not None:
        members = cast("dict[str, object]", value)
        fields = {
            struct_field.encode_name: struct_field
            for struct_field in msgspec.structs.fields(struct)
        }
        for name in members:
            if name not in fields and struct.__struct_config__.forbid_unknown_fields:
                inside = True
                yield FieldError(pointer(*path, name), "is unknown here")
        for name, field in fields.items():
            if field.required and name not in members:
                inside = True
                yield FieldError(pointer(*path, name), "is missing")
    if inside:
        return
    try:
        msgspec.convert(value, type=kind, strict=True)
    except msgspec.ValidationError as error:
        yield FieldError(pointer(*path), requirement(str(error), kind))


def _parts(value: object, kind: Any) -> Iterator[tuple[str | int, Any, object]]:
    """Yield the values inside of one, each with its place and its declared type."""
    struct = _struct(kind)
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        for field in () if struct is None else msgspec.structs.fields(struct):
            if field.encode_name in members:
                yield field.encode_name, _set(field.type), members[field.encode_name]
        for below in _inside(kind, dict, 0):
            if get_origin(below) is Annotated:
                yield from ((name, below, name) for name in members)
        for below in _inside(kind, dict, 1):
            yield from ((name, below, member) for name, member in members.items())
    elif isinstance(value, list):
        items = cast("list[object]", value)
        for below in _inside(kind, list, 0):
            yield from ((index, below, item) for index, item in enumerate(items))


def _inside(kind: Any, collection: type, index: int) -> Iterator[Any]:
    """Yield the declared type of what such a collection holds."""
    for option in _plain(kind):
        if get_origin(option) is collection:
            yield get_args(option)[index]


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    classes = (option for option in _plain(kind) if isinstance(option, type))
    return next((option for option in classes if issubclass(option, msgspec.Struct)), None)


def _set(kind: Any) -> Any:
    """Return the type of a member that is present."""
    if get_origin(kind) in {Union, types.UnionType}:
        return Union[tuple(option for option in get_args(kind) if option is not msgspec.UnsetType)]  # noqa: UP007
    return kind


def _plain(kind: Any) -> Iterator[Any]:
    """Yield the types of a union, each without its bounds."""
    if get_origin(kind) is Annotated:
        yield from _plain(get_args(kind)[0])
    elif get_origin(kind) in {Union, types.UnionType}:
        for option in get_args(kind):
            yield from _plain(option)
    else:
        yield kind


def _choices(kind: Any) -> list[str]:
    choices: list[str] = []
    for option in _plain(kind):
        if get_origin(option) is Literal:
            choices += [str(one) for one in get_args(option)]
        elif isinstance(option, type) and issubclass(option, Enum):
            choices += [str(one.value) for one in option]
    return choices


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
    return _Inlining(schema).inlined(schema, ())


def inside(schema: Mapping[str, object]) -> Sequence[tuple[str, Mapping[str, object]]]:
    """Iterate over the schemas directly inside this one, each with its path."""
    subschemas: list[tuple[str, object]] = []
    for keyword, value in schema.items():
        if keyword in _MAPS | {"$defs"} and isinstance(value, dict):
            below = cast("dict[str, object]", value)
            subschemas += [(f"{keyword}/{name}", subschema) for name, subschema in below.items()]
        elif keyword in _LISTS and isinstance(value, list):
            several = cast("list[object]", value)
            subschemas += [
                (f"{keyword}/{index}", subschema) for index, subschema in enumerate(several)
            ]
        elif keyword in _ONE:
            subschemas.append((keyword, value))
    return [
        (path, cast("Mapping[str, object]", subschema))
        for path, subschema in subschemas
        if isinstance(subschema, dict)
    ]


class _Inlining:
    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._count = 0

    def inlined(
        self, schema: Mapping[str, object], on_the_way: tuple[str, ...]
    ) -> dict[str, object]:
        self._count += 1
        if self._count > MOST:
            raise NotLocal(f"with every reference in place it is more than {MOST} schemas")
        made: dict[str, object] = {}
        for keyword, value in schema.items():
            if keyword in _GONE:
                continue
            if keyword in _MAPS and isinstance(value, dict):
                below = cast("dict[str, object]", value)
                made[keyword] = {
                    name: self._any(subschema, on_the_way) for name, subschema in below.items()
                }
            elif keyword in _LISTS and isinstance(value, list):
                several = cast("list[object]", value)
                made[keyword] = [self._any(subschema, on_the_way) for subschema in several]
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
        target = self.inlined(self._found(reference), (*on_the_way, reference))
        # Keywords beside a reference apply too (2020-12).
        return target if not made else {**made, "allOf": [*_several(made), target]}

    def _any(self, value: object, on_the_way: tuple[str, ...]) -> object:
        if not isinstance(value, dict):
            return value
        return self.inlined(cast("dict[str, object]", value), on_the_way)

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
            name: subschema["default"]
            for name, subschema in properties.items()
            if "default" in subschema
        }
        self.required = _required(root) - self.defaults.keys()
        self.schema: Document = {**root, "additionalProperties": False}
        # The caller checks absence, which depends on whether this is a creation or a replacement.
        self._validator = _validator({**self.schema, "required": []})
        self._fields = {name: _validator(subschema) for name, subschema in properties.items()}
        for error in self._errors(self.defaults):
            raise UnusableSchema(f"the default at {error.pointer} does not fit: {error.detail}")

    def validate(self, document: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
        """Validate the fields and their combination; return at most 100 errors."""
        values = {name: whole(value) for name, value in document.items()}
        return tuple(islice(self._errors(document), MOST_ERRORS)), values

    def fault(self, name: str, value: object) -> str:
        """Return what is wrong with a value of this field alone; "" for nothing."""
        for error in self._fields[name].iter_errors(value):
            return _field_error(error).detail
        return ""

    def _errors(self, document: Document) -> Iterator[FieldError]:
        yield from (unknown(name) for name in document if name not in self._fields)
        values = {name: value for name, value in document.items() if name in self._fields}
        if self._validator.is_valid(values):
            return
        if _is_small(values):
            for error in self._validator.iter_errors(values):
                yield _field_error(error, *error.instance_path)
            return
        wrong = {
            name: value for name, value in values.items() if not self._fields[name].is_valid(value)
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
    if error.kind.name == "pattern":
        detail = _OTHER_FORM
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
    path = pointer(*reason.instance_path)
    if reason.instance_path[-1:] == ["type"]:
        return UnusableSchema(f"at {path}: the type is none of {', '.join(_TYPES)}")
    return UnusableSchema(f"at {path or '/'}: {reason.message}")


def _properties(root: Document) -> Mapping[str, Mapping[str, object]]:
    if root.get("type") != "object":
        raise UnusableSchema('its type must be "object"')
    properties = root.get("properties")
    if not isinstance(properties, dict) or not properties:
        raise UnusableSchema("it needs properties")
    if root.get("additionalProperties", False) is not False or "patternProperties" in root:
        raise UnusableSchema("every field is named in properties: unknown ones are always refused")
    for name, subschema in cast("dict[str, object]", properties).items():
        if name in RESERVED:
            raise UnusableSchema(
                f"the server sets {name} of every object: remove it from properties"
            )
        if not isinstance(subschema, dict):
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


def _check_keywords(schema: Mapping[str, object], path: str) -> None:
    for keyword in schema:
        if keyword not in _KEYWORDS:
            close = get_close_matches(keyword, _KEYWORDS, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise UnusableSchema(
                f"at {path or '/'}: the keyword {keyword!r} is unknown here{meant}"
            )
    named = schema.get("format")
    if named is not None and named not in FORMATS:
        formats = ", ".join(sorted(FORMATS))
        raise UnusableSchema(f"at {path}/format: {named!r} is unknown; known are {formats}")
    for step, below in inside(schema):
        _check_keywords(below, f"{path}/{step}")
