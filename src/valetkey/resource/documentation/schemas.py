"""Objects as shown, created, replaced and patched, in JSON Schema (2020-12)."""

from collections.abc import Mapping
from typing import cast

from valetkey.kernel.shapes.shape import Document
from valetkey.resource.resource_object import Home, ResourceObject
from valetkey.resource.shapes.scalar import Scalar, scalar_of

LARGEST = 2**53
"""JSON parsers agree on integers between this and its negative."""

_MOMENT = {
    "type": "integer",
    "description": "Seconds since 1970, UTC.",
    "examples": [1_795_262_400],
}
_NUMERIC = frozenset(("integer", "number"))


def shown(kind: ResourceObject) -> Document:
    """Return the schema of an object as it is read."""
    if kind.home is not Home.HERE:
        return {"type": "object", "properties": dict(kind.shows)}
    fields = published(kind.fields.schema)
    return {
        **fields,
        "properties": {
            "id": {"type": "string", "examples": [f"{kind.name.removesuffix('s')}_9f8Hc2"]},
            **properties(fields),
            "created_at": _MOMENT,
            "changed_at": _MOMENT,
            "version": {"type": "integer", "minimum": 1, "examples": [1]},
        },
        "required": [
            "id",
            *(name for name in kind.fields.names if _always(kind, name)),
            "created_at",
            "changed_at",
            "version",
        ],
    }


def created(kind: ResourceObject) -> Document:
    """Return the schema of a POST body."""
    return {**published(kind.fields.schema), "required": sorted(kind.fields.required)}


def replaced(kind: ResourceObject) -> Document:
    """Return the schema of a PUT body."""
    needed = [name for name in kind.fields.names if _always(kind, name)]
    whole = {**published(kind.fields.schema), "required": needed}
    if not kind.either:
        return whole
    return {
        **whole,
        "allOf": [
            {"anyOf": [{"required": [name]} for name in sorted(group)]} for group in kind.either
        ],
    }


def patched(kind: ResourceObject) -> Document:
    """Return the schema of a merge patch: any field; null removes those that can be removed."""
    fields = published(kind.fields.schema)
    if kind.home is Home.HERE:
        made = _partly({**fields, "required": sorted(kind.fields.required)})
        return {"type": "object", "properties": properties(made), "additionalProperties": False}
    removable = kind.fields.defaults
    return {
        "type": "object",
        "properties": {
            name: _or_null(_partly(schema)) if name in removable else _partly(schema)
            for name, schema in properties(fields).items()
        },
        "additionalProperties": False,
    }


def listed(kind: ResourceObject) -> Document:
    """Return the schema of a list."""
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{kind.name}"}},
            "next": {"type": "string", "description": "Where the next page is, if there is one."},
        },
        "required": ["items"],
    }


def published(schema: Document) -> dict[str, object]:
    """Return `schema` with the limits on integers that every body has."""
    # A class's name is not a title; a field called title is a schema, not a text.
    named = "title" if isinstance(schema.get("title"), str) else ""
    made = {key: _published(value) for key, value in schema.items() if key != named}
    kind = made.get("type")
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
    if "integer" in kinds:
        if "minimum" not in made and "exclusiveMinimum" not in made:
            made["minimum"] = -LARGEST
        if "maximum" not in made and "exclusiveMaximum" not in made:
            made["maximum"] = LARGEST
    return made


def _published(value: object) -> object:
    if isinstance(value, dict):
        return published(cast("dict[str, object]", value))
    if isinstance(value, list):
        return [_published(each) for each in cast("list[object]", value)]
    return value


def _always(kind: ResourceObject, name: str) -> bool:
    return name in kind.fields.required or name in kind.fields.defaults


def scalar(schema: Document) -> Scalar:
    """Return the type of a field that lists are filtered by."""
    return scalar_of(schema) or Scalar.STRING


def _partly(schema: Document) -> dict[str, object]:
    """Return the schema of a partial value: objects by field, anything else as a whole."""
    made = dict(schema)
    for several in ("anyOf", "allOf", "oneOf"):
        if isinstance(made.get(several), list):
            made[several] = [_partly(each) for each in cast("list[Document]", made[several])]
    if isinstance(made.get("properties"), dict):
        kept = made.pop("required", [])
        made["properties"] = {
            name: _partly(each)
            if isinstance(kept, list) and name in kept
            else _or_null(_partly(each))
            for name, each in properties(made).items()
        }
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _or_null(
            _partly(cast("Document", made["additionalProperties"]))
        )
    return made


def _or_null(schema: Document) -> Document:
    return {"anyOf": [schema, {"type": "null"}]}


def properties(schema: Document) -> Mapping[str, Document]:
    """Return the fields of a schema of objects."""
    return cast("Mapping[str, Document]", schema["properties"])
