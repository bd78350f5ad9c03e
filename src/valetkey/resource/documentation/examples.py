"""Generate realistic example values for a schema."""

from collections.abc import Mapping, Sequence
from typing import cast

from valetkey.kernel.shapes.shape import Document, Invalid
from valetkey.resource.resource_object import ResourceObject

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
    for said in ("examples", "enum"):
        several = schema.get(said)
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
        kind = next((each for each in cast("list[object]", kind) if each != "null"), None)
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
            made = {name: of_schema(each) for name, each in properties.items()}
            # A field without an example is omitted, as a caller may do.
            return {name: each for name, each in made.items() if each is not None}
        case _:
            return None


def _text(schema: Document) -> str | None:
    if "pattern" in schema:
        return None
    known = _FORMATS.get(str(schema.get("format")))
    if known is not None:
        return known
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(_LETTERS))
    wanted = max(least if isinstance(least, int) else 0, len(_LETTERS.strip()))
    text = (_LETTERS * (wanted // len(_LETTERS) + 1))[:wanted]
    return text[: most if isinstance(most, int) else None].strip() or text
