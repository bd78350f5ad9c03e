"""Read values of an export that may be of any type."""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

Json = Mapping[str, object]


def text_values_in(value: object) -> Mapping[str, str]:
    """Return the members of an object whose values are texts; "" for each other value."""
    pairs = cast("Json", value if isinstance(value, dict) else {}).items()
    return {name: text_in(each) for name, each in pairs}


def object_in(value: object) -> Json:
    """Return the object that a text holds as JSON, or the object itself."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return {}
    return cast("Json", value if isinstance(value, dict) else {})


def objects_in(value: object) -> Sequence[Json]:
    """Return the objects of a list."""
    listed = cast("list[object]", value if isinstance(value, list) else [])
    return [cast("Json", each) for each in listed if isinstance(each, dict)]


def texts_in(value: object) -> Sequence[str]:
    """Return the texts of a list."""
    listed = cast("list[object]", value if isinstance(value, list) else [])
    return [each for each in listed if isinstance(each, str)]


def tuple_in(value: object) -> tuple[str, ...]:
    """Return a tuple of texts; an empty one for any other value."""
    return cast("tuple[str, ...]", value) if isinstance(value, tuple) else ()


def text_in(value: object) -> str:
    """Return a text; "" for any other value."""
    return value if isinstance(value, str) else ""
