"""Members of a body that the server sets: accepted with the value that the record has.

So a program can send back what it read, with its changes.
"""

from functools import cache
from types import MappingProxyType
from typing import cast

import msgspec

from valetkey.authorization.operations.operation import Call, InvalidInput, Operation
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.kernel.replace import replace
from valetkey.kernel.shapes import Document, is_shown

_NOTHING: Document = MappingProxyType({})


def split(operation: Operation, reader: Operation | None, body: object) -> tuple[object, Document]:
    """Return the members of a body that can be written, and those that the server sets.

    `reader` shows the record that the operation changes; None if there is none.
    """
    changes = operation.method in {"PUT", "PATCH"} and operation.input is not None
    names = _read_only(operation.input, reader.output) if changes and reader else frozenset[str]()
    if not isinstance(body, dict):
        return body, _NOTHING
    given = cast("dict[str, object]", body)
    told = {name: value for name, value in given.items() if name in names}
    return {name: value for name, value in given.items() if name not in told}, told


async def check_read_only(call: Call, reader: Operation | None, told: Document) -> None:
    """Raise InvalidInput for each member that the record shows with another value.

    Nothing is written from these members, so that they are read before the change.
    """
    if reader is None or not told:
        return
    result = await reader.run(replace(call, operation=reader, query={}, body=None))
    found = cast("Document", msgspec.to_builtins(result.value))
    shown = cast("Document", found.get("record", found))
    wrong = [name for name, value in told.items() if not is_shown(shown, name, value)]
    if wrong:
        raise InvalidInput([MetadataError(name, "the server sets this field") for name in wrong])


@cache
def _read_only(takes: type | None, gives: type | None) -> frozenset[str]:
    """Return the members that cannot be written but are shown."""
    return _names(gives) - _names(takes)


def _names(kind: object) -> frozenset[str]:
    fields = {each.encode_name: each for each in msgspec.structs.fields(cast("type", kind))}
    record = fields.get("record")
    return frozenset(fields) if record is None else _names(record.type)
