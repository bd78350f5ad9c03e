"""The documentation page of the admin API: conventions, permissions and every operation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import MAY, Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.operations.operation import PREFIX, Operation
from valetkey.authorization.operations.table import Table, title_of
from valetkey.authorization.site.admin.server.tokens import PERMISSION_WORDS
from valetkey.kernel.text import translatable


class OperationShown(Struct, frozen=True):
    """One operation as the page shows it."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    permission: str
    query: tuple[str, ...]
    requires_if_match: bool


class ParameterShown(Struct, frozen=True):
    """A parameter of an operation; `place` is `path`, `query`, `header` or `body`.

    `type` and `text` are for developers, in English.
    """

    name: str
    place: str
    type: str
    required: bool
    text: str = ""


class OperationPage(Struct, frozen=True):
    """One operation with its parameters, programs that call it and a form that sends it."""

    template: ClassVar[str] = "admin/server/operation.html"
    title: ClassVar[str] = translatable("Admin API")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "explorer.js")

    operation: OperationShown
    parameters: tuple[ParameterShown, ...]
    #: Language and text of each program.
    programs: tuple[tuple[str, str], ...]
    prefix: str
    #: An example of the body; "" for none, or for a file.
    body: str = ""
    media: str = ""
    back: str = f"{PREFIX}/"
    tokens: str = ADDRESSES["admin_tokens"]


class AreaShown(Struct, frozen=True):
    """The operations of one area, below its title."""

    title: str
    operations: tuple[OperationShown, ...]


class PermissionShown(Struct, frozen=True):
    """A permission that a token can have, and the roles that have it."""

    name: str
    words: str
    roles: tuple[str, ...]


class ApiReferencePage(Struct, frozen=True):
    """The context of the page: conventions, permissions and operations."""

    template: ClassVar[str] = "admin/server/api.html"
    title: ClassVar[str] = translatable("Admin API")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "filter.js")

    base: str
    openapi: str
    example: str
    permissions: tuple[PermissionShown, ...]
    areas: tuple[AreaShown, ...]


def explained(issuer: str, table: Table) -> ApiReferencePage:
    """Return the page, built from the operations table only."""
    return ApiReferencePage(
        base=f"{issuer}{PREFIX}",
        openapi=f"{PREFIX}/openapi.json",
        example=f'curl -H "Authorization: Bearer $TOKEN" {issuer}{PREFIX}/token',
        permissions=tuple(
            PermissionShown(
                permission.value,
                PERMISSION_WORDS[permission],
                tuple(role.value for role, may in MAY.items() if permission in may),
            )
            for permission in Permission
        ),
        areas=tuple(
            AreaShown(title_of(name), tuple(_shown(operation) for operation in operations))
            for name, operations in table.areas.items()
        ),
    )


def _shown(operation: Operation) -> OperationShown:
    return OperationShown(
        operation.id,
        operation.method,
        operation.path,
        operation.summary,
        operation.description,
        operation.permission.value,
        tuple(parameter.name for parameter in operation.query),
        requires_if_match=operation.requires_if_match,
    )


Schema = Mapping[str, Any]
"""A JSON Schema. Any: its members have the types that their names say."""

_DEEPEST = 4


def operation_page(issuer: str, operation: Operation) -> OperationPage:
    """Return the page of one operation."""
    schema, defs = _schema_of(operation)
    example = _example(schema, defs) if schema else None
    media = "application/json" if schema else ""
    if operation.upload is not None:
        media = next(iter(operation.upload.media))
    target = f"{issuer}{PREFIX}{operation.path.replace('{', '').replace('}', '')}"
    call = _Example(operation, target, example, media)
    return OperationPage(
        _shown(operation),
        tuple(_parameters(operation, schema, defs)),
        (("curl", call.curl()), ("Python", call.python()), ("JavaScript", call.javascript())),
        prefix=PREFIX,
        body=json.dumps(example, indent=2, ensure_ascii=False) if schema else "",
        media=media,
    )


def _schema_of(operation: Operation) -> tuple[Schema, Schema]:
    if operation.input is None:
        return {}, {}
    (schema,), defs = msgspec.json.schema_components((operation.input,))
    return _resolved(schema, defs), defs


def _resolved(schema: Schema, defs: Schema) -> Schema:
    ref = schema.get("$ref")
    return schema if ref is None else defs[str(ref).rpartition("/")[2]]


def _parameters(operation: Operation, schema: Schema, defs: Schema) -> Iterator[ParameterShown]:
    for name in operation.arguments:
        yield ParameterShown(name, "path", "string", required=True)
    for parameter in operation.query:
        text = parameter.description
        kind = _type(parameter.schema, {})
        yield ParameterShown(parameter.name, "query", kind, required=False, text=text)
    if operation.requires_if_match:
        text = "The ETag of the state that was read."
        yield ParameterShown("If-Match", "header", "string", required=True, text=text)
    required: Sequence[str] = schema.get("required", ())
    properties: Mapping[str, Schema] = schema.get("properties", {})
    # What has to be given comes first.
    for name in sorted(properties, key=lambda property_name: property_name not in required):
        property_schema = properties[name]
        text = str(property_schema.get("description", ""))
        is_required = name in required
        yield ParameterShown(
            name, "body", _type(property_schema, defs), required=is_required, text=text
        )


def _type(schema: Schema, defs: Schema) -> str:
    schema = _resolved(schema, defs)
    if "enum" in schema:
        return ", ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(
            dict.fromkeys(_type(alternative, defs) for alternative in schema["anyOf"])
        )
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}), defs)}"
    kinds = schema.get("type", "any value")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _example(schema: Schema, defs: Schema, depth: int = 0) -> Any:
    """Return a value that looks like the schema: of an object, what it requires."""
    schema = _resolved(schema, defs)
    for word in ("examples", "enum"):
        if schema.get(word):
            return schema[word][0]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], defs, depth)
    match schema.get("type"):
        case "object" if depth < _DEEPEST:
            properties: Mapping[str, Schema] = schema.get("properties", {})
            names = schema.get("required") or list(properties)[:2]
            return {name: _example(properties[name], defs, depth + 1) for name in names}
        case "object":
            return {}
        case "array":
            return [_example(schema["items"], defs, depth + 1)] if schema.get("items") else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "text"


class _Example(Struct, frozen=True):
    """Programs that call an operation."""

    operation: Operation
    target: str
    body: object
    media: str

    @property
    def _json(self) -> bool:
        return self.operation.input is not None

    def curl(self) -> str:
        """Return the command."""
        method = self.operation.method
        lines = ["curl" if method == "GET" else f"curl --request {method}"]
        lines.append('--header "Authorization: Bearer $TOKEN"')
        if self.operation.requires_if_match:
            lines.append("--header 'If-Match: \"ETAG\"'")
        if self.media:
            lines.append(f"--header 'Content-Type: {self.media}'")
        if self._json:
            written = json.dumps(self.body, ensure_ascii=False).replace("'", "'\\''")
            lines.append(f"--data '{written}'")
        elif self.media:
            lines.append("--data-binary @FILE")
        lines.append(self.target)
        return " \\\n  ".join(lines)

    def python(self) -> str:
        """Return the program with `requests`."""
        headers = ['"Authorization": f"Bearer {token}"']
        if self.operation.requires_if_match:
            headers.append('"If-Match": \'"ETAG"\'')
        if self.media and not self._json:
            headers.append(f'"Content-Type": "{self.media}"')
        sent = [f"    json={self.body!r},"] if self._json else []
        if self.media and not self._json:
            sent = ['    data=open("FILE", "rb"),']
        return "\n".join(
            (
                "import requests",
                "",
                f"answer = requests.{self.operation.method.lower()}(",
                f'    "{self.target}",',
                f"    headers={{{', '.join(headers)}}},",
                *sent,
                "    timeout=10,",
                ")",
                "answer.raise_for_status()",
                *(("print(answer.json())",) if self.operation.output is not None else ()),
            )
        )

    def javascript(self) -> str:
        """Return the program with `fetch`."""
        headers = ["    Authorization: `Bearer ${token}`,"]
        if self.operation.requires_if_match:
            headers.append('    "If-Match": \'"ETAG"\',')
        if self.media:
            headers.append(f'    "Content-Type": "{self.media}",')
        sent: list[str] = []
        if self._json:
            sent = [f"  body: JSON.stringify({json.dumps(self.body, ensure_ascii=False)}),"]
        elif self.media:
            sent = ["  body: file,"]
        return "\n".join(
            (
                f'const answer = await fetch("{self.target}", {{',
                f'  method: "{self.operation.method}",',
                "  headers: {",
                *headers,
                "  },",
                *sent,
                "});",
                "if (!answer.ok) throw new Error((await answer.json()).detail);",
                *(
                    ("console.log(await answer.json());",)
                    if self.operation.output is not None
                    else ()
                ),
            )
        )
