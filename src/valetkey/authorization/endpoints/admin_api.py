"""The admin API: authenticate the token, read the input, run the operation; its OpenAPI.

So a program can send back what it read, with its changes.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from types import MappingProxyType
from typing import cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.tokens import authenticate
from valetkey.authorization.authentication.browsers import coming_from
from valetkey.authorization.model.user import LARGEST_UID
from valetkey.authorization.operations.operation import (
    CURSOR,
    ENTROPY,
    GRANT_TYPE_ENUM,
    PREFIX,
    Call,
    InvalidInput,
    Operation,
    QueryParameter,
    Result,
    Services,
    Upload,
    UploadedFile,
)
from valetkey.authorization.operations.table import Table
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.site.admin.server.api import explained, operation_page
from valetkey.authorization.site.presentation import Renderer
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.preconditions import REQUIRED, preconditions
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.shapes import MOST_ERRORS, Document, is_shown, problem_schema, whole
from valetkey.kernel.text import trimmed
from valetkey.web.body import read_json, read_query
from valetkey.web.exchange import Endpoint, Refuse, Request, Response, json_response
from valetkey.web.router import Body, Route

_REF = "#/components/schemas/{name}"
_ALWAYS = (400, 401, 403, 413, 414, 429, 503)
_WITH_BODY = (415,)
_GUARDED = (412, 428)
_NAMED = (404,)
_TAGS = r'^(\*|(W/)?"[!#-~]*")$'

_Schema = dict[str, object]
_SEGMENT: _Schema = {"type": "string", "pattern": r"^[A-Za-z0-9._~-]{1,100}$"}
_SEGMENTS: dict[str, _Schema] = {
    "uid": {"type": "integer", "minimum": 1, "maximum": LARGEST_UID},
    "grant_type": {"type": "string", "enum": ["implicit", "password"]},
}


def document(issuer: str, name: str, table: Table) -> _Schema:
    """Return the OpenAPI document."""
    _, components = _schemas(table)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{name}: admin API",
            "version": "1",
            "description": (
                "Every operation of the console, for programs. Errors are problem documents"
                " (RFC 9457) with a reference. A user with a role creates the token; it allows no"
                " more than that role allows at the time of each request. A change may contain"
                " members that the server sets, with the values that they have."
            ),
        },
        "servers": [{"url": f"{issuer}{PREFIX}"}],
        "tags": [{"name": name} for name in table.areas],
        "security": [{"token": []}],
        "paths": _paths(table),
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of this API: `vka_…`.",
                }
            },
            "schemas": {"Problem": problem_schema("/redirect_uris/0"), **components},
        },
    }


@cache
def _paths(table: Table) -> _Schema:
    paths: dict[str, _Schema] = {}
    for tag, operations in table.areas.items():
        for operation in operations:
            methods = paths.setdefault(operation.path, {})
            methods[operation.method.lower()] = _operation(tag, operation, table)
    return dict(paths)


def _operation(tag: str, operation: Operation, table: Table) -> _Schema:
    needs = f"Needs the permission `{operation.permission.value}`."
    made: _Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": f"{operation.description} {needs}".strip(),
        "tags": [tag],
        "parameters": _parameters(operation),
        "responses": {**_answer(operation, table), **_refusals(operation)},
        "x-permission": operation.permission.value,
    }
    if operation.input is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(operation.input, table)}},
        }
    if operation.upload is not None:
        made["requestBody"] = {
            "required": True,
            "content": {media: {"schema": it} for media, it in operation.upload.media.items()},
        }
    return made


def _parameters(operation: Operation) -> Sequence[_Schema]:
    parameters: list[_Schema] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _SEGMENTS.get(name, _SEGMENT),
        }
        for name in operation.arguments
    ]
    for parameter in operation.query:
        schema = dict(parameter.schema)
        parameters.append(
            {
                "name": parameter.name,
                "in": "query",
                "description": parameter.description,
                "schema": schema,
            }
        )
    if operation.requires_if_match:
        parameters.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "description": "The ETag of the state that was read; 412 if it has changed.",
                "schema": {"type": "string", "pattern": _TAGS},
            }
        )
    return parameters


def _answer(operation: Operation, table: Table) -> _Schema:
    made: _Schema = {"description": HTTPStatus(operation.status).phrase}
    headers: _Schema = {}
    if operation.returns_etag:
        headers["ETag"] = {"schema": {"type": "string"}, "required": True}
    if any(parameter.name == CURSOR for parameter in operation.query):
        headers["Link"] = {"schema": {"type": "string"}, "description": "`next`, where there is"}
    if operation.status == HTTPStatus.CREATED:
        headers["Location"] = {
            "schema": {"type": "string"},
            "required": True,
            "description": "The path of what was created; for a secret, of what has it.",
        }
    if headers:
        made["headers"] = headers
    if operation.media:
        made["content"] = {
            media: {"schema": {"type": "object" if media == "application/json" else "string"}}
            for media in operation.media
        }
    elif operation.output is not None:
        made["content"] = {"application/json": {"schema": _ref(operation.output, table)}}
    return {str(operation.status): made}


def _refusals(operation: Operation) -> Mapping[str, object]:
    statuses = {
        *_ALWAYS,
        *operation.error_statuses,
        *(_NAMED if operation.arguments else ()),
        *(_WITH_BODY if operation.input is not None else ()),
        *(_GUARDED if operation.requires_if_match else ()),
    }
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {
                "application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}
            },
        }
        for status in sorted(statuses)
    }


def _ref(shape: object, table: Table) -> object:
    return _schemas(table)[0][shape]


@cache
def _schemas(table: Table) -> tuple[Mapping[object, object], Mapping[str, object]]:
    """Return a reference to each shape, and the shapes by name; computed once for all rows."""
    named = [shape for o in table.operations for shape in (o.input, o.output) if shape is not None]
    shapes = tuple(dict.fromkeys(named))
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    return dict(zip(shapes, schemas, strict=True)), {
        name: _with_grant_types(schema, table.grant_types) for name, schema in components.items()
    }


def _with_grant_types(schema: object, grant_types: Sequence[str]) -> object:
    """Return the schema with the names of the grant types where they are allowed."""
    if isinstance(schema, list):
        return [_with_grant_types(part, grant_types) for part in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        name: list(grant_types)
        if name == "enum" and part == GRANT_TYPE_ENUM
        else _with_grant_types(part, grant_types)
        for name, part in cast("dict[str, object]", schema).items()
    }


_NOTHING: Document = MappingProxyType({})


def split(operation: Operation, reader: Operation | None, body: object) -> tuple[object, Document]:
    """Return the members of a body that can be written, and those that the server sets.

    `reader` shows the record that the operation changes; None if there is none.
    """
    is_change = operation.method in {"PUT", "PATCH"} and operation.input is not None
    names = _read_only(operation.input, reader.output) if is_change and reader else frozenset[str]()
    if not isinstance(body, dict):
        return body, _NOTHING
    members = cast("dict[str, object]", body)
    read_only = {name: value for name, value in members.items() if name in names}
    changes = {name: trimmed(value) for name, value in members.items() if name not in read_only}
    return changes, read_only


async def check_read_only(call: Call, reader: Operation | None, read_only: Document) -> None:
    """Raise InvalidInput for each member that the record shows with another value.

    Nothing is written from these members, so that they are read before the change.
    """
    if reader is None or not read_only:
        return
    result = await reader.run(replace(call, operation=reader, query={}, body=None))
    output = cast("Document", msgspec.to_builtins(result.value))
    shown = cast("Document", output.get("record", output))
    wrong = [name for name, value in read_only.items() if not is_shown(shown, name, value)]
    if wrong:
        raise InvalidInput([MetadataError(name, "the server sets this field") for name in wrong])


@cache
def _read_only(takes: type | None, gives: type | None) -> frozenset[str]:
    """Return the members that cannot be written but are shown."""
    return _names(gives) - _names(takes)


def _names(kind: object) -> frozenset[str]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(cast("type", kind))}
    record = fields.get("record")
    return frozenset(fields) if record is None else _names(record.type)


_TYPE = ("content-type", "application/problem+json")
_UNAUTHORIZED = 401

NO_TOKEN = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this needs a token of the admin API that works, sent as Authorization: Bearer",
    "admin_api.token",
    "a valid token of a user with a role",
    "none, or another",
)


class Problems(Struct, frozen=True):
    """Responds to every refusal of this API."""

    issuer: str
    decisions: ClientDecisionQueue

    def at(self, path: str) -> Refuse:
        """Return the error handler of this path's route."""

        def refuse(request: Request, refusal: Refusal) -> Response:
            return self.answer(request, refusal, path)

        return refuse

    def answer(
        self, request: Request, refusal: Refusal, path: str, faults: Sequence[MetadataError] = ()
    ) -> Response:
        """Return the problem response; its reason is stored under the reference."""
        reference = self.decisions.enqueue(refusal, endpoint=path, at=request.at)
        status = refusal.code.status
        problem: dict[str, object] = {
            "type": f"{self.issuer}/errors/{refusal.code.value}",
            "title": refusal.code.heading,
            "status": status,
            "detail": refusal.description,
            "code": refusal.code.value,
            "reference": reference,
        }
        if faults:
            problem["errors"] = [
                {"pointer": fault.field and f"/{fault.field}", "detail": fault.detail}
                for fault in faults[:MOST_ERRORS]
            ]
        headers: list[tuple[str, str]] = [_TYPE, _NO_STORE]
        if status == _UNAUTHORIZED:
            headers.append(("www-authenticate", 'Bearer realm="admin API", error="invalid_token"'))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        return Response(status, msgspec.json.encode(problem), tuple(headers))


_MEDIA = re.compile(r'([a-z0-9./+-]+)(?:[ \t]*;[ \t]*charset="?utf-8"?)?', re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


def read_body(
    operation: Operation, reader: Operation | None, request: Request
) -> tuple[object, Document]:
    """Return the body with the operation's input type, and its members that the server sets.

    Refused if it is invalid.
    """
    if operation.upload is not None:
        return _file(operation.upload, request), {}
    if operation.input is None:
        if request.body:
            raise Refused.because(ErrorCode.INVALID_REQUEST, "this takes no body", "admin_api.body")
        return None, {}
    body, read_only = split(operation, reader, whole(read_json(request.body)))
    try:
        return msgspec.convert(body, type=operation.input, strict=True), read_only
    except msgspec.ValidationError as error:
        raise InvalidInput(faults_of(error, body, operation.input)) from None


def _file(upload: Upload, request: Request) -> UploadedFile:
    match = _MEDIA.fullmatch((request.headers.get("content-type") or "").strip(" \t"))
    media = match[1].lower() if match else ""
    if media not in upload.media:
        reason = f"the body must be {', '.join(upload.media)}; in UTF-8"
        raise Refused.because(ErrorCode.UNSUPPORTED_MEDIA_TYPE, reason, "http.content_type")
    return UploadedFile(media, request.body)


def read_parameters(operation: Operation, request: Request) -> Mapping[str, str]:
    """Return the query parameters of the operation; Refused if they are invalid."""
    query_parameters = {parameter.name: parameter for parameter in operation.query}
    form = read_query(request.query)
    if unknown := [name for name in form.names if name not in query_parameters]:
        names = ", ".join(query_parameters)
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            f"this takes the query parameters {names}, and no others"
            if query_parameters
            else "this takes no query parameters",
            "query.unknown",
            names,
            ", ".join(unknown),
        )
    faults: list[MetadataError] = []
    parameters: dict[str, str] = {}
    for name, parameter in query_parameters.items():
        value = form.get(name)
        if value is None:
            continue
        if detail := _wrong(parameter, value):
            faults.append(MetadataError(name, detail))
        parameters[name] = value
    if faults:
        raise InvalidInput(faults)
    return parameters


def _wrong(parameter: QueryParameter, value: str) -> str:
    schema = parameter.schema
    kind = schema.get("type")
    if kind == "integer":
        low, high = cast("int", schema["minimum"]), cast("int", schema["maximum"])
        if _NUMBER.fullmatch(value) is None or not low <= int(value) <= high:
            return f"a whole number from {low} to {high}"
    elif kind == "boolean":
        if value not in {"true", "false"}:
            return "true or false"
    elif "enum" in schema:
        choices = cast("list[str]", schema["enum"])
        if value not in choices:
            return f"one of: {', '.join(choices)}"
    else:
        return _wrong_text(parameter, value)
    return ""


def _wrong_text(parameter: QueryParameter, value: str) -> str:
    schema = parameter.schema
    longest = cast("int", schema.get("maxLength", 200))
    least = cast("int", schema.get("minLength", 0))
    if not least <= len(value) <= longest:
        return f"{least} to {longest} characters"
    pattern = cast("str | None", schema.get("pattern"))
    if pattern is not None and re.fullmatch(pattern.removeprefix("^"), value) is None:
        return "as its description says"
    return ""


_NOTED_EVERY = 60
_NO_STORE = ("cache-control", "no-store")


class OperationEndpoint(Struct, frozen=True):
    """Runs one operation. It ignores cookies, so that no page can call it through a browser."""

    services: Services
    problems: Problems
    operation: Operation
    reader: Operation | None
    """What reads the record at the same path."""
    object_argument: str
    """The argument that names one object of this collection, "" if nothing is created here."""

    async def __call__(self, request: Request) -> Response:
        """Run the operation and return its response. Raises Refused."""
        path = f"{PREFIX}{self.operation.path}"
        try:
            with coming_from(request):
                return await self._run(request)
        except InvalidInput as invalid:
            return self.problems.answer(request, invalid.refusal, path, invalid.faults)
        except Refused as refused:
            return self.problems.answer(request, refused.refusal, path)

    async def _run(self, request: Request) -> Response:
        operation, store, now = self.operation, self.services.store, request.at
        text = request.bearer_token
        key = self.services.fingerprints
        authentication = await store.read(lambda tx: authenticate(tx, key, text, now))
        if authentication is None:
            raise Refused(NO_TOKEN)
        token, program, powers = authentication
        if token.last_used_at is None or token.last_used_at + _NOTED_EVERY <= now:
            await store.write(
                lambda tx: tx.api_tokens.note_use(token.id, now), done_by=program.done_by
            )
        if not powers.allow(operation.permission):
            raise Refused.because(
                ErrorCode.FORBIDDEN,
                f"this needs a token with the permission {operation.permission.value}, "
                "created by a user whose role has it",
                "admin_api.permission",
                operation.permission.value,
                " ".join(sorted(powers.permissions)),
            )
        preconditions_held = preconditions(
            request.headers.all("if-match"), request.headers.all("if-none-match")
        )
        query = read_parameters(operation, request)
        body, read_only = read_body(operation, self.reader, request)
        if operation.requires_if_match and preconditions_held.match is None:
            raise Refused(REQUIRED)
        entropy = self.services.random(ENTROPY)
        call = Call(
            self.services,
            operation,
            program,
            now,
            entropy,
            request.arguments,
            query,
            body,
            preconditions_held,
            by_program=True,
        )
        await check_read_only(call, self.reader, read_only)
        result = await operation.run(call)
        return result.download or self._answer(result, request, call)

    def _answer(self, result: Result, request: Request, call: Call) -> Response:
        headers: list[tuple[str, str]] = [_NO_STORE]
        if result.file is not None:
            saved_as = f'attachment; filename="{result.file.name}"'
            own = (("content-type", result.file.media), ("content-disposition", saved_as))
            return Response(self.operation.status, result.file.content, (*own, *headers))
        if result.etag:
            headers.append(("etag", result.etag))
        if result.next:
            headers.append(("link", _next_link(request.path, call.query, result.next)))
        if self.operation.status == HTTPStatus.CREATED:
            headers.append(
                ("location", _location(self.object_argument, request.path, result.value))
            )
        if self.operation.output is None:
            return Response(self.operation.status, b"", tuple(headers))
        return json_response(result.value, self.operation.status, tuple(headers))


OPENAPI = f"{PREFIX}/openapi.json"
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_CACHED = (("cache-control", "public, max-age=300"),)


def routes(
    renderer: Renderer, services: Services, decisions: ClientDecisionQueue, table: Table
) -> tuple[Route, ...]:
    """Return the routes. Other paths below the prefix are not found."""
    issuer = services.settings.authorization.url
    problems = Problems(issuer, decisions)

    # A quarter of a megabyte that most processes are never asked for.
    @cache
    def described() -> Response:
        whole = document(issuer, services.settings.brand.name, table)
        return json_response(whole, headers=_CACHED)

    async def openapi(_: Request) -> Response:
        return described()

    async def people(request: Request) -> Response:
        named = read_query(request.query).get("operation")
        if named is not None:
            named_operation = next(
                (candidate for candidate in table.operations if candidate.id == named), None
            )
            if named_operation is None:
                raise Refused.because(
                    ErrorCode.NOT_FOUND, "this operation does not exist", "admin.operation"
                )
            return renderer.page(request, operation_page(issuer, named_operation))
        return renderer.page(request, explained(issuer, table))

    async def nothing(_: Request) -> Response:
        raise Refused.because(ErrorCode.NOT_FOUND, "this page does not exist", "http.path")

    paths: dict[str, list[Operation]] = {}
    for operation in table.operations:
        paths.setdefault(operation.path, []).append(operation)
    return (
        Route(OPENAPI, {"GET": openapi}, problems.at(OPENAPI)),
        Route(f"{PREFIX}/", {"GET": people}, problems.at(f"{PREFIX}/")),
        *(
            _route(path, listed, services, problems, table.object_arguments.get(path, ""))
            for path, listed in paths.items()
        ),
        Route("/admin/api/{+rest}", dict.fromkeys(_METHODS, nothing), problems.at("/admin/api/")),
    )


def _route(
    path: str,
    operations: Sequence[Operation],
    services: Services,
    problems: Problems,
    object_argument: str,
) -> Route:
    reader = next((operation for operation in operations if operation.method == "GET"), None)
    methods: dict[str, Endpoint] = {
        operation.method: OperationEndpoint(services, problems, operation, reader, object_argument)
        for operation in operations
    }
    whole, refuse = f"{PREFIX}{path}", problems.at(f"{PREFIX}{path}")
    for operation in operations:
        if operation.upload is not None:
            limit = operation.upload.largest(services.settings)
            return Route(whole, methods, refuse, Body.ANY, limit=limit)
    return Route(whole, methods, refuse, Body.JSON)


def _location(object_argument: str, path: str, value: object) -> str:
    """Return the path of what was created; for a secret, of the client or API that has it."""
    record = getattr(value, "record", value)
    for name in (object_argument, "id", "name"):
        if (made := getattr(record, name, None)) is not None:
            return f"{path}/{quote(str(made), safe='')}"
    return path.rpartition("/")[0]


def _next_link(path: str, query: Mapping[str, str], after: str) -> str:
    query_string = urlencode({**query, CURSOR: after})
    return f'<{path}?{query_string}>; rel="next"'
