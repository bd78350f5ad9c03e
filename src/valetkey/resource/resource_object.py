"""ResourceObject: an object's shape, scopes, owner, place of storage, methods and scalar fields."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import date
from enum import StrEnum
from functools import cached_property
from math import inf, isfinite
from types import MappingProxyType
from typing import cast, get_type_hints

import msgspec

from valetkey.kernel.shapes import (
    RESERVED,
    Document,
    FieldError,
    Invalid,
    JsonSchema,
    Shape,
    inlined,
    is_shown,
    pointer,
    requirement,
    unknown,
    whole,
)
from valetkey.resource.storage.objects import Orders

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
        names = [name for name in cast("list[object]", kind) if name != "null"]
        kind = names[0] if len(names) == 1 else None
    if kind is None and _names_texts(schema):
        return Scalar.STRING
    return Scalar(kind) if isinstance(kind, str) and kind in tuple(Scalar) else None


def without_null(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return the one alternative to null in a schema, or the schema if it has several or none."""
    several = schema.get("anyOf")
    if not isinstance(several, list):
        return schema
    rest = [alternative for alternative in cast("list[object]", several) if alternative != _NULL]
    if len(rest) != 1 or not isinstance(rest[0], dict):
        return schema
    return without_null(cast("dict[str, object]", rest[0]))


def _names_texts(schema: Mapping[str, object]) -> bool:
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not isinstance(choices, list) or not choices:
        return False
    return all(isinstance(choice, str) for choice in cast("list[object]", choices))


NOTHING: Document = MappingProxyType({})
"""No members."""


class DataclassShape:
    """The fields of a dataclass; an omitted field gets its default."""

    def __init__(self, record: type) -> None:
        """Take the fields of `record`, a dataclass. Raises NameError for an unknown type."""
        self._record = record
        self._types: dict[str, object] = get_type_hints(record, include_extras=True)
        self.names = tuple(self._types)
        self.defaults: Document = dict(_defaults(record))
        self.required = frozenset(
            field.name
            for field in fields(record)
            if field.default is MISSING and field.default_factory is MISSING
        )

    @property
    def schema(self) -> Document:
        """Return the class as a JSON Schema."""
        return {**inlined(msgspec.json.schema(self._record)), "additionalProperties": False}

    def validate(self, document: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
        """Validate each field; return the errors, and the values converted for the class."""
        errors: list[FieldError] = []
        values: dict[str, object] = {}
        for name, value in document.items():
            if name not in self._types:
                errors.append(unknown(name))
                continue
            try:
                values[name] = self._converted(name, value)
            except msgspec.ValidationError as error:
                errors.append(_error(name, str(error), self._types[name]))
        return errors, values

    def fault(self, name: str, value: object) -> str:
        """Return what is wrong with a value of this field alone; "" for nothing."""
        try:
            self._converted(name, value)
        except msgspec.ValidationError as error:
            return requirement(str(error), self._types[name])
        return ""

    def _converted(self, name: str, value: object) -> object:
        return cast("object", msgspec.convert(whole(value), type=cast("type", self._types[name])))


def _defaults(record: type) -> Iterator[tuple[str, object]]:
    """Return the defaults of the class as JSON values."""
    for record_field in fields(record):
        value = record_field.default
        if record_field.default_factory is not MISSING:
            value = record_field.default_factory()
        if value is not MISSING and value is not msgspec.UNSET:
            yield record_field.name, cast("object", msgspec.to_builtins(value))


def _error(name: str, message: str, kind: object) -> FieldError:
    """Convert msgspec's message (`Expected `str`, got `int` - at `$[0].a``) and its path."""
    reason, _, path = message.partition(" - at `$")
    inside = path.removesuffix("`").replace("[", "/").replace("]", "").replace(".", "/")
    return FieldError(pointer(name) + inside, requirement(reason, None if path else kind))


class OwnedBy(StrEnum):
    """The owner of the data, who alone may access it."""

    USER = "user"
    CLIENT = "client"


class Backend(StrEnum):
    """The server that stores the data."""

    HERE = "here"
    """The resource server's own database."""
    ISSUER = "issuer"
    """The authorization server, called over HTTP."""


class Verb(StrEnum):
    """An operation on an object."""

    LIST = "list"
    READ = "read"
    CREATE = "create"
    REPLACE = "replace"
    CHANGE = "change"
    DELETE = "delete"

    @property
    def writes(self) -> bool:
        """Return whether it needs the scope for writing."""
        return self not in (Verb.LIST, Verb.READ)


@dataclass(frozen=True)
class ResourceObject:
    """One kind of object under `/v2/<name>`.

    `shape` holds the fields that callers may write, a frozen dataclass or a JSON Schema; a field
    that is omitted on creation or removed by a patch gets its default. A singleton has one record
    for each owner and no id in its URL. `either` names fields of which a replacement needs any one.
    """

    name: str
    shape: type | JsonSchema
    verbs: frozenset[Verb] = frozenset(Verb)
    reads: str = ""
    """The sentence of the scope `<name>:read`, such as "read your notes"."""
    writes: str = ""
    """The sentence of the scope `<name>:write`, such as "change your notes"."""
    owned_by: OwnedBy = OwnedBy.USER
    home: Backend = Backend.HERE
    singleton: bool = False
    either: tuple[frozenset[str], ...] = ()
    shows: Document = field(default_factory=dict[str, object])
    """Read-only fields of records at the authorization server, each as a JSON Schema."""
    newest: int = 0
    """Maximum number of records the authorization server lists, the newest; 0 for no limit."""
    sort: tuple[str, ...] = ()
    """Fields that lists can be sorted by: text, numbers, booleans; `changed_at` if named.

    Sorting by `created_at` is always possible.
    """
    filter: tuple[str, ...] = ()
    """Fields that lists can be filtered by."""
    requires_if_match: bool = False
    """Whether a change must name the state it is based on (RFC 6585 section 3)."""
    deprecated: date | None = None
    """The date since which new clients should not use it (RFC 9745)."""
    sunset: date | None = None
    """The date after which it may be removed (RFC 8594)."""

    def scopes(self, verb: Verb) -> tuple[str, ...]:
        """Return the scopes of which any one allows `verb`, the narrowest first."""
        word = "write" if verb.writes else "read"
        narrow = f"{self.name}:{word}"
        # A client's own record is not a user's data: the scope `read` does not cover it.
        return (narrow, word) if self.owned_by is OwnedBy.USER else (narrow,)

    @cached_property
    def fields(self) -> Shape:
        """Return the fields that callers may write."""
        return DataclassShape(self.shape) if isinstance(self.shape, type) else self.shape

    @cached_property
    def read_only(self) -> frozenset[str]:
        """Return the members of a record that the server sets."""
        shown = RESERVED if self.home is Backend.HERE else self.shows
        return frozenset(shown) - frozenset(self.fields.names)

    def split(self, body: Document) -> tuple[Document, Document]:
        """Return the members of a body that can be written, and those that the server sets."""
        read_only = {name: value for name, value in body.items() if name in self.read_only}
        if not read_only:
            return body, NOTHING
        return {name: value for name, value in body.items() if name not in read_only}, read_only

    @cached_property
    def orders(self) -> Orders:
        """Return the lists that are kept of the object."""
        return Orders(self.sort, self.filter)

    @cached_property
    def scalars(self) -> Mapping[str, Scalar]:
        """Return the scalar type of each field that has one."""
        properties = cast("Mapping[str, Document]", self.fields.schema.get("properties", {}))
        held = {name: scalar_of(schema) for name, schema in properties.items()}
        return {name: scalar for name, scalar in held.items() if scalar is not None}

    def created(self, members: Document) -> Document:
        """Return the new document for `members`, defaults filled in. Raises Invalid."""
        shape = self.fields
        missing = [
            FieldError(pointer(name), "this field is required")
            for name in shape.names
            if name in shape.required and name not in members
        ]
        return self._whole({**shape.defaults, **members}, missing)

    def replaced(self, members: Document) -> Document:
        """Return the new document, which must name every field. Raises Invalid."""
        shape = self.fields
        missing = [
            FieldError(pointer(name), "a PUT names every field; use PATCH to change some")
            for name in shape.names
            if (name in shape.required or name in shape.defaults) and name not in members
        ]
        missing += [
            FieldError(pointer(min(group)), f"a PUT names one of: {', '.join(sorted(group))}")
            for group in self.either
            if not any(name in members for name in group)
        ]
        return self._whole(members, missing)

    def changed(self, before: Document, after: Document) -> Document:
        """Return the whole document after a patch of `before`. Raises Invalid.

        A field that the patch removed gets its default; a required field without a default cannot
        be removed.
        """
        shape = self.fields
        missing = [
            FieldError(pointer(name), "this field cannot be removed")
            for name in shape.names
            if name in shape.required and name not in after and name in before
        ]
        return self._whole({**shape.defaults, **after}, missing)

    def fields_of(self, stored: Document) -> Document:
        """Return a stored document's fields in this shape; an older document may have more."""
        return {name: stored[name] for name in self.fields.names if name in stored}

    def changes(self, patch: Document) -> Document:
        """Return the fields a merge patch changes, to send to the other server. Raises Invalid."""
        shape = self.fields
        removed = [name for name, value in patch.items() if value is None and name in shape.names]
        errors, values = shape.validate(
            {name: value for name, value in patch.items() if name not in removed}
        )
        errors = [
            *errors,
            *(
                FieldError(pointer(name), "this field cannot be removed")
                for name in removed
                if name not in shape.defaults
            ),
        ]
        if errors:
            raise Invalid(errors)
        return {**values, **{name: shape.defaults[name] for name in removed}}

    def merged(self, before: Document, patch: Document) -> Document:
        """Return the whole document after a merge patch (RFC 7396). Raises Invalid."""
        strange = [unknown(name) for name in patch if name not in self.fields.names]
        after = merge(before, {n: v for n, v in patch.items() if n in self.fields.names})
        try:
            whole = self.changed(before, after)
        except Invalid as invalid:
            raise Invalid([*strange, *invalid.errors]) from None
        if strange:
            raise Invalid(strange)
        return whole

    def _whole(self, document: Document, missing: Sequence[FieldError]) -> Document:
        errors, values = self.fields.validate(document)
        if errors or missing:
            raise Invalid([*errors, *missing])
        # Equal documents have equal bytes, for any order of the fields.
        return {name: values[name] for name in self.fields.names if name in values}


def check_read_only(read_only: Document, shown: Document) -> None:
    """Raise Invalid for each member of `told` that the record shows with another value."""
    wrong = [unknown(name) for name, value in read_only.items() if not is_shown(shown, name, value)]
    if wrong:
        raise Invalid(wrong)


def merge(before: object, patch: Document) -> dict[str, object]:
    """Apply RFC 7396 to `before`: null removes, objects merge, anything else replaces."""
    merged = dict(cast("dict[str, object]", before)) if isinstance(before, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge(merged.get(name), cast("dict[str, object]", value))
        else:
            merged[name] = value
    return merged
