"""A declared object in JSON: a JSON Schema (2020-12) with a block `x-valetkey`."""

import json
from datetime import date
from pathlib import Path
from typing import cast

import msgspec

from valetkey.kernel.refusal import Refused
from valetkey.kernel.shapes.json_schema import JsonSchema, Unusable
from valetkey.resource.objects.declared.invalid import InvalidDeclaration, check
from valetkey.resource.resource_object import OwnedBy, ResourceObject, Verb
from valetkey.web.json_body import read_json

BLOCK = "x-valetkey"


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that JSON Schema lacks; names are those of ResourceObject."""

    reads: str
    writes: str = ""
    verbs: frozenset[Verb] = frozenset(Verb)
    owned_by: OwnedBy = OwnedBy.USER
    sort: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    requires_if_match: bool = False
    deprecated: date | None = None
    sunset: date | None = None


def read(file: Path, text: str) -> ResourceObject:
    """Return the object that the file declares. Raises Wrong."""
    try:
        document = read_json(text.encode())
    except Refused as refused:
        reason = f"{refused.refusal.description}{_place(text)}"
        raise InvalidDeclaration(reason, "write one JSON object") from None
    if not isinstance(document, dict):
        raise InvalidDeclaration("it is no JSON object", "write a JSON Schema")
    schema = cast("dict[str, object]", document)
    block = _block(schema.pop(BLOCK, None))
    try:
        shape = JsonSchema(schema)
    except Unusable as reason:
        raise InvalidDeclaration(str(reason), "fix the schema") from None
    declared = ResourceObject(
        file.stem,
        shape,
        block.verbs,
        reads=block.reads,
        writes=block.writes,
        owned_by=block.owned_by,
        sort=block.sort,
        filter=block.filter,
        requires_if_match=block.requires_if_match,
        deprecated=block.deprecated,
        sunset=block.sunset,
    )
    return check(declared, file)


def _place(text: str) -> str:
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError):
            return f" (line {error.lineno}, column {error.colno})"
    return ""


def _block(value: object) -> Block:
    if value is None:
        raise InvalidDeclaration(
            f'it has no "{BLOCK}"', f'add "{BLOCK}": {{"reads": "read your …", "writes": "…"}}'
        )
    try:
        return msgspec.convert(value, type=Block)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(Block))
        reason = str(error).replace("`", "").replace(" - at $", " at ")
        raise InvalidDeclaration(f"{BLOCK}: {reason}", f"it may have: {known}") from None
