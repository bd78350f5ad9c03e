"""Everything that is invalid in a JSON value of a declared type, in the words of JSON."""

import re
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec

from valetkey.kernel.shapes.shape import FieldError, pointer

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
_NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"


def errors_of(value: object, kind: Any) -> Iterator[FieldError]:
    """Yield each error of a JSON value of the type `kind`: members, items, values of mappings."""
    return _errors(value, kind, ())


def requirement(message: str, kind: Any = None) -> str:
    """Return what a value must be, from the message of msgspec about it."""
    said = _WHERE.sub("", message)
    if found := _TYPE.fullmatch(said):
        wanted = " or ".join(_WORDS.get(each, each) for each in found[1].split(" | "))
        return f"must be {wanted}, not {_GIVEN.get(found[2], found[2])}"
    if found := _LENGTH.fullmatch(said):
        size = _SIZES[found[1]].removesuffix("s" if found[3] == "1" else "")
        return f"must have {_BOUNDS[found[2]]} {found[3]} {size}"
    if found := _RANGE.fullmatch(said):
        return f"must be {_BOUNDS[found[1]]} {found[2]}"
    if found := _PATTERN.fullmatch(said):
        pattern = found[1].strip("'\"").replace("\\\\", "\\")
        return (
            "must have no control characters"
            if pattern == _NO_CONTROLS
            else f"must match {pattern}"
        )
    if said.startswith("Invalid enum value") and (choices := _choices(kind)):
        return f"must be one of: {', '.join(choices)}"
    return said.replace("`", "")


_GIVEN: Mapping[str, str] = types.MappingProxyType({**_WORDS, "bool": "a boolean"})


def _errors(value: object, kind: Any, path: tuple[str | int, ...]) -> Iterator[FieldError]:
    inside = False
    for place, below, each in _parts(value, kind):
        for error in _errors(each, below, (*path, place)):
            inside = True
            yield error
    if isinstance(value, dict) and (struct := _struct(kind)) is not None:
        given = cast("dict[str, object]", value)
        fields = {each.encode_name: each for each in msgspec.structs.fields(struct)}
        for name in given:
            if name not in fields and struct.__struct_config__.forbid_unknown_fields:
                inside = True
                yield FieldError(pointer(*path, name), "is unknown here")
        for name, field in fields.items():
            if field.required and name not in given:
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
        given = cast("dict[str, object]", value)
        for field in () if struct is None else msgspec.structs.fields(struct):
            if field.encode_name in given:
                yield field.encode_name, _set(field.type), given[field.encode_name]
        for below in _inside(kind, dict, 1):
            yield from ((name, below, each) for name, each in given.items())
    elif isinstance(value, list):
        items = cast("list[object]", value)
        for below in _inside(kind, list, 0):
            yield from ((place, below, each) for place, each in enumerate(items))


def _inside(kind: Any, collection: type, place: int) -> Iterator[Any]:
    """Yield the declared type of what such a collection holds."""
    for each in _plain(kind):
        if get_origin(each) is collection:
            yield get_args(each)[place]


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    found = (each for each in _plain(kind) if isinstance(each, type))
    return next((each for each in found if issubclass(each, msgspec.Struct)), None)


def _set(kind: Any) -> Any:
    """Return the type of a member that is present."""
    if get_origin(kind) in {Union, types.UnionType}:
        return Union[tuple(each for each in get_args(kind) if each is not msgspec.UnsetType)]  # noqa: UP007
    return kind


def _plain(kind: Any) -> Iterator[Any]:
    """Yield the types of a union, each without its bounds."""
    if get_origin(kind) is Annotated:
        yield from _plain(get_args(kind)[0])
    elif get_origin(kind) in {Union, types.UnionType}:
        for each in get_args(kind):
            yield from _plain(each)
    else:
        yield kind


def _choices(kind: Any) -> list[str]:
    found: list[str] = []
    for each in _plain(kind):
        if get_origin(each) is Literal:
            found += [str(one) for one in get_args(each)]
        elif isinstance(each, type) and issubclass(each, Enum):
            found += [str(one.value) for one in each]
    return found
