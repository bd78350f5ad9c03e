"""Objects in JSON Schema (2020-12), and each operation as an example request."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct

from valetkey.kernel.shapes import Document, Invalid
from valetkey.resource.resource_object import Backend, ResourceObject, Scalar, Verb, scalar_of

_MOMENT = {
    "type": "integer",
    "description": "Seconds since 1970, UTC.",
    "examples": [1_795_262_400],
}


def shown(kind: ResourceObject) -> Document:
    """Return the schema of an object as it is read."""
    if kind.home is not Backend.HERE:
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
    if kind.home is Backend.HERE:
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
            "next": {
                "type": ["string", "null"],
                "description": "The value of `cursor` for the next page; null at the end.",
            },
        },
        "required": ["items", "next"],
    }


def published(schema: Document) -> dict[str, object]:
    """Return `schema` without the names of classes."""
    # A class's name is not a title; a field called title is a schema, not a text.
    named = "title" if isinstance(schema.get("title"), str) else ""
    return {key: _published(value) for key, value in schema.items() if key != named}


def _published(value: object) -> object:
    if isinstance(value, dict):
        return published(cast("dict[str, object]", value))
    if isinstance(value, list):
        return [_published(item) for item in cast("list[object]", value)]
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
            made[several] = [
                _partly(subschema) for subschema in cast("list[Document]", made[several])
            ]
    if isinstance(made.get("properties"), dict):
        kept = made.pop("required", [])
        made["properties"] = {
            name: _partly(subschema)
            if isinstance(kept, list) and name in kept
            else _or_null(_partly(subschema))
            for name, subschema in properties(made).items()
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


_FORMATS: Mapping[str, str] = {
    "date": "2026-11-21",
    "date-time": "2026-11-21T12:00:00Z",
    "duration": "PT15M",
    "email": "ada@example.com",
    "hostname": "www.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "12:00:00Z",
    "uri": "https://example.com/",
    "uuid": "0f8fad5b-d9cb-469f-a165-70867728950e",
}
_LETTERS = "Some text "


def of_kind(kind: ResourceObject) -> Document | None:
    """Return a document that creates an object; None if there is no example."""
    made = of_schema(kind.fields.schema)
    try:
        return kind.created(cast("dict[str, object]", made)) if isinstance(made, dict) else None
    except Invalid:
        return None


def of_schema(schema: Document) -> object:
    """Return a value for a schema: its example, its default, or the simplest of its type."""
    for keyword in ("examples", "enum"):
        several = schema.get(keyword)
        if isinstance(several, list) and several:
            return cast("list[object]", several)[0]
    if "const" in schema:
        return schema["const"]
    if schema.get("default") is not None:
        return schema["default"]
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            choices = cast("Sequence[Document]", schema[several])
            fitting = [choice for choice in choices if choice.get("type") != "null"]
            return of_schema(fitting[0]) if fitting else None
    return _of_type(schema)


def _of_type(schema: Document) -> object:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(
            (type_name for type_name in cast("list[object]", kind) if type_name != "null"), None
        )
    match kind:
        case "string":
            return _text(schema)
        case "integer" | "number":
            return schema.get("minimum", schema.get("maximum", 1))
        case "boolean":
            return True
        case "array":
            item = schema.get("items")
            one = of_schema(cast("Document", item)) if isinstance(item, dict) else None
            least = schema.get("minItems", 1)
            return [one] * max(1, least if isinstance(least, int) else 1)
        case "object":
            properties = cast("Mapping[str, Document]", schema.get("properties", {}))
            made = {name: of_schema(subschema) for name, subschema in properties.items()}
            # A field without an example is omitted, as a caller may do.
            return {name: example for name, example in made.items() if example is not None}
        case _:
            return None


def _text(schema: Document) -> str | None:
    if "pattern" in schema:
        return None
    example = _FORMATS.get(str(schema.get("format")))
    if example is not None:
        return example
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(_LETTERS))
    length = max(least if isinstance(least, int) else 0, len(_LETTERS.strip()))
    text = (_LETTERS * (length // len(_LETTERS) + 1))[:length]
    return text[: most if isinstance(most, int) else None].strip() or text


class Action(Struct, frozen=True):
    """One operation of one object: method, path, and an example body if it has one."""

    kind: ResourceObject
    verb: Verb
    method: str
    path: str
    summary: str
    example: Document | None = None

    @property
    def name(self) -> str:
        """Return its operationId, such as `list_notes`."""
        return f"{self.verb}_{self.kind.name.replace('-', '_')}"

    @property
    def has_id(self) -> bool:
        """Return whether the path contains an id."""
        return "{id}" in self.path

    @property
    def has_preconditions(self) -> bool:
        """Return whether it takes preconditions."""
        return self.verb in (Verb.REPLACE, Verb.CHANGE, Verb.DELETE)

    @property
    def has_body(self) -> bool:
        """Return whether it has a body."""
        return self.verb in (Verb.CREATE, Verb.REPLACE, Verb.CHANGE)


_METHODS = (
    (Verb.LIST, "GET", "List {name}"),
    (Verb.CREATE, "POST", "Create an object of {name}"),
    (Verb.READ, "GET", "Read an object of {name}"),
    (Verb.REPLACE, "PUT", "Replace an object of {name}"),
    (Verb.CHANGE, "PATCH", "Change fields of an object of {name}"),
    (Verb.DELETE, "DELETE", "Delete an object of {name}"),
)


def actions(kind: ResourceObject) -> Iterator[Action]:
    """Return all operations of an object, in display order."""
    example = of_kind(kind) if kind.home is Backend.HERE or kind.fields.names else None
    for verb, method, summary in _METHODS:
        if verb not in kind.verbs:
            continue
        several = verb in (Verb.LIST, Verb.CREATE) or kind.singleton
        path = f"/v2/{kind.name}" if several else f"/v2/{kind.name}/{{id}}"
        sentence = summary.replace("an object of ", "") if kind.singleton else summary
        yield Action(
            kind, verb, method, path, sentence.format(name=kind.name), _sent(example, verb)
        )


def _sent(example: Document | None, verb: Verb) -> Document | None:
    if example is None or verb not in (Verb.CREATE, Verb.REPLACE, Verb.CHANGE):
        return None
    if verb is Verb.CHANGE:
        return dict(list(example.items())[:1])
    return example
