"""DataclassShape: an object's shape from a frozen dataclass, constraints by msgspec.Meta."""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from typing import cast, get_type_hints

import msgspec

from valetkey.kernel.shapes.inline import inlined
from valetkey.kernel.shapes.shape import Document, FieldError, pointer, unknown

_EXACT = 2**53


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

    def judge(self, given: Document) -> tuple[Sequence[FieldError], dict[str, object]]:
        """Validate each field; return the errors, and the values converted for the class."""
        errors: list[FieldError] = []
        values: dict[str, object] = {}
        for name, value in given.items():
            if name not in self._types:
                errors.append(unknown(name))
                continue
            try:
                values[name] = msgspec.convert(_whole(value), type=cast("type", self._types[name]))
            except msgspec.ValidationError as error:
                errors.append(_error(name, str(error)))
        return errors, values


def _defaults(record: type) -> Iterator[tuple[str, object]]:
    """Return the defaults of the class as JSON values."""
    for field in fields(record):
        value = field.default
        if field.default_factory is not MISSING:
            value = field.default_factory()
        if value is not MISSING and value is not msgspec.UNSET:
            yield field.name, cast("object", msgspec.to_builtins(value))


def _whole(value: object) -> object:
    """Return `value` with 1 for each 1.0, which JSON treats as one number."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, list):
        return [_whole(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in cast("dict[str, object]", value).items()}
    return value


def _error(name: str, message: str) -> FieldError:
    """Convert msgspec's message (`Expected `str`, got `int` - at `$[0].a``) and its path."""
    said, _, place = message.partition(" - at `$")
    inside = place.removesuffix("`").replace("[", "/").replace("]", "").replace(".", "/")
    detail = said.replace("`", "")
    return FieldError(pointer(name) + inside, detail[:1].lower() + detail[1:])
