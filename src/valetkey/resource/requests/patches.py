"""The two patch formats: merge patch (RFC 7396) and JSON Patch (RFC 6902)."""

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.shapes import Document, FieldError, Invalid, pointer
from valetkey.resource.resource_object import ResourceObject

OPERATIONS = 100
"""Maximum number of operations in one JSON Patch."""

_BYTES = 1024 * 1024
_MOVED = 2 * _BYTES
"""Bytes that the operations of one patch may write in total: the work delays other requests."""
_DEPTH = 32
_CONFLICT = Refusal(
    ErrorCode.CONFLICT,
    "an operation cannot be applied: its path does not exist, or a test failed",
    "patch.conflict",
)
_TOO_LARGE = Refusal(
    ErrorCode.INVALID_REQUEST, "the result of the patch is too large or too deep", "patch.too_large"
)


class PatchRefused(Refused):
    """The refusal of a patch, and which of its operations cannot be applied."""

    def __init__(self, refusal: Refusal, error: FieldError) -> None:
        """Refuse because of the operation to which the error points."""
        super().__init__(refusal)
        self.errors = (error,)


class Patch(Protocol):
    """A parsed PATCH body."""

    def applied(self, kind: ResourceObject, before: Document) -> Document:
        """Return the whole document after the patch. Raises Invalid and Refused."""
        ...

    def alone(self, kind: ResourceObject) -> Document | None:
        """Return the changed fields if they do not depend on the current ones. Raises Invalid."""
        ...


class MergePatch(Struct, frozen=True):
    """A document of changes; null removes."""

    document: Document

    def applied(self, kind: ResourceObject, before: Document) -> Document:
        """Return the whole document after the patch. Raises Invalid."""
        return kind.merged(before, self.document)

    def alone(self, kind: ResourceObject) -> Document | None:
        """Return the changed fields, unless one is an object, which merges with the current one."""
        if any(isinstance(value, dict) for value in self.document.values()):
            return None
        return kind.changes(self.document)


class Operation(Struct, frozen=True):
    """One operation; `path` and `source` are JSON pointers split into steps."""

    op: str
    path: tuple[str, ...]
    value: object = None
    source: tuple[str, ...] = ()


class JsonPatch(Struct, frozen=True):
    """Operations that are applied all or none."""

    operations: tuple[Operation, ...]

    def applied(self, kind: ResourceObject, before: Document) -> Document:
        """Return the patched document. Raises Invalid; PatchRefused if an operation fails."""
        # A deep copy, so that a retry starts from the original.
        document: object = _copied(before)
        room = _SizeBudget()
        for index, operation in enumerate(self.operations):
            try:
                document = _done(document, operation, room)
            except _Failed as failed:
                error = FieldError(pointer(index, failed.member), failed.detail)
                raise PatchRefused(failed.refusal, error) from None
        if len(msgspec.json.encode(document)) > _BYTES:
            raise Refused(_TOO_LARGE)
        if not isinstance(document, dict):
            raise Invalid([FieldError("", "the document must stay an object")])
        return kind.changed(before, cast("dict[str, object]", document))

    def alone(self, kind: ResourceObject) -> Document | None:
        """Return None: a test or a copy needs the current document."""
        return None


def read_json_patch(value: object) -> JsonPatch:
    """Parse the operations in a body. Raises Invalid listing every invalid one."""
    if not isinstance(value, list):
        raise Invalid([FieldError("", "a JSON Patch is a list of operations")])
    entries = cast("list[object]", value)
    if len(entries) > OPERATIONS:
        raise Invalid([FieldError("", f"a JSON Patch has at most {OPERATIONS} operations")])
    errors: list[FieldError] = []
    operations: list[Operation] = []
    for index, entry in enumerate(entries):
        try:
            operations.append(_operation(entry))
        except _Malformed as wrong:
            errors.append(FieldError(pointer(index, *wrong.place), wrong.detail))
    if errors:
        raise Invalid(errors)
    return JsonPatch(tuple(operations))


class _Malformed(Exception):
    def __init__(self, detail: str, *path: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.place = path


_WITH_VALUE = frozenset(("add", "replace", "test"))
_WITH_SOURCE = frozenset(("move", "copy"))


def _operation(entry: object) -> Operation:
    if not isinstance(entry, dict):
        raise _Malformed("an operation is an object")
    members = cast("dict[str, object]", entry)
    op = members.get("op")
    if not isinstance(op, str) or op not in _WITH_VALUE | _WITH_SOURCE | {"remove"}:
        raise _Malformed("op must be add, remove, replace, move, copy or test", "op")
    path = _steps(members.get("path"), "path")
    if op in _WITH_VALUE:
        if "value" not in members:
            raise _Malformed(f"{op} needs a value", "value")
        return Operation(op, path, members["value"])
    if op == "remove":
        return Operation(op, path)
    source = _steps(members.get("from"), "from")
    if op == "move" and path[: len(source)] == source and path != source:
        raise _Malformed("an object cannot be moved into itself", "from")
    return Operation(op, path, None, source)


def _steps(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise _Malformed(f"{name} must be a JSON pointer", name)
    steps = value.split("/")[1:]
    if len(steps) > _DEPTH or any(
        "~" in step.replace("~0", "").replace("~1", "") for step in steps
    ):
        raise _Malformed(f"{name} must be a JSON pointer of at most {_DEPTH} steps", name)
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


_NOTHING = "there is nothing at this place"


class _Failed(Exception):
    """An operation that cannot be applied: which member of it, and why."""

    def __init__(self, detail: str, member: str = "path", refusal: Refusal = _CONFLICT) -> None:
        super().__init__(detail)
        self.detail = detail
        self.member = member
        self.refusal = refusal


class _SizeBudget:
    """The bytes that the operations of one patch may still write."""

    def __init__(self) -> None:
        self._moved = 0

    def copy_to_write(self, value: object, path: Sequence[str]) -> object:
        """Return a copy of `value` to write. Raises _Failed if it is too large or too deep."""
        written = msgspec.json.encode(value)
        self._moved += len(written)
        if self._moved > _MOVED or len(path) + _depth(value) > _DEPTH:
            raise _Failed("the result is too large or too deep", refusal=_TOO_LARGE)
        return cast("object", msgspec.json.decode(written))


def _done(document: object, operation: Operation, room: _SizeBudget) -> object:
    path = operation.path
    match operation.op:
        case "test":
            if not _same(_at(document, path), operation.value):
                raise _Failed("the value there is not this one", "value")
            return document
        case "remove":
            return _without(document, path)
        case "replace":
            _at(document, path)
            value = room.copy_to_write(operation.value, path)
            return _put(document, path, value, replaces=True)
        case "add":
            return _put(document, path, room.copy_to_write(operation.value, path))
        case "copy":
            value = room.copy_to_write(_at(document, operation.source, "from"), path)
            return _put(document, path, value)
        case _:
            value = room.copy_to_write(_at(document, operation.source, "from"), path)
            return _put(_without(document, operation.source), path, value)


def _put(document: object, path: Sequence[str], value: object, *, replaces: bool = False) -> object:
    if not path:
        return value
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        cast("dict[str, object]", parent)[last] = value
    elif isinstance(parent, list):
        items = cast("list[object]", parent)
        index = len(items) if last == "-" and not replaces else _index(last, len(items))
        if replaces:
            items[index] = value
        else:
            items.insert(index, value)
    else:
        raise _Failed("a value that has no members is there")
    return document


def _without(document: object, path: Sequence[str]) -> object:
    if not path:
        raise _Failed("the whole object cannot be removed")
    _at(document, path)
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        items = cast("list[object]", parent)
        del items[_index(last, len(items) - 1)]
    else:
        del cast("dict[str, object]", parent)[last]
    return document


def _at(document: object, path: Sequence[str], member: str = "path") -> object:
    here = document
    for step in path:
        if isinstance(here, dict) and step in here:
            here = cast("dict[str, object]", here)[step]
        elif isinstance(here, list):
            items = cast("list[object]", here)
            here = items[_index(step, len(items) - 1, member)]
        else:
            raise _Failed(_NOTHING, member)
    return here


def _index(step: str, most: int, member: str = "path") -> int:
    digits = step.isascii() and step.isdigit() and len(step) <= len(str(_BYTES))
    if not digits or (step != "0" and step.startswith("0")) or int(step) > most:
        raise _Failed(_NOTHING, member)
    return int(step)


def _copied(value: object) -> object:
    return cast("object", msgspec.json.decode(msgspec.json.encode(value)))


def _depth(value: object) -> int:
    """Return the nesting depth of lists and objects; 0 for anything else."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        here, level = waiting.pop()
        if isinstance(here, dict):
            below: Sequence[object] = list(cast("Mapping[str, object]", here).values())
        elif isinstance(here, list):
            below = cast("list[object]", here)
        else:
            continue
        deepest = max(deepest, level)
        if level > _DEPTH:
            break
        waiting += [(child, level + 1) for child in below if isinstance(child, dict | list)]
    return deepest


def _same(one: object, other: object) -> bool:
    # In JSON true is not a number, and 1 equals 1.0 (RFC 6902 section 4.6).
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        ours, theirs = cast("dict[str, object]", one), cast("dict[str, object]", other)
        return ours.keys() == theirs.keys() and all(_same(ours[k], theirs[k]) for k in ours)
    if isinstance(one, list) and isinstance(other, list):
        these, those = cast("list[object]", one), cast("list[object]", other)
        return len(these) == len(those) and all(map(_same, these, those))
    return one == other
