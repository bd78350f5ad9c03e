"""The endpoint of one operation: authenticate the token, read the input, run it, respond."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.api_tokens import authenticate
from valetkey.authorization.authentication.browsers import coming_from
from valetkey.authorization.endpoints.admin_api.openapi import document
from valetkey.authorization.endpoints.admin_api.read_only import check_read_only, split
from valetkey.authorization.operations.operation import (
    CURSOR,
    ENTROPY,
    PREFIX,
    Call,
    InvalidInput,
    Operation,
    QueryParameter,
    Result,
    Services,
)
from valetkey.authorization.operations.records import Upload, UploadedFile
from valetkey.authorization.operations.table import Table
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.site.admin.server.api import explained
from valetkey.authorization.site.presentation import Renderer
from valetkey.authorization.storage.decisions import ClientDecisionQueue
from valetkey.kernel.preconditions import REQUIRED, preconditions
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.shapes import MOST_ERRORS, Document, whole
from valetkey.web.body import read_json, read_query
from valetkey.web.exchange import Endpoint, Refuse, Request, Response, json_response
from valetkey.web.router import Body, Route

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
    body, told = split(operation, reader, whole(read_json(request.body)))
    try:
        return msgspec.convert(body, type=operation.input, strict=True), told
    except msgspec.ValidationError as error:
        raise InvalidInput(faults_of(error, body, operation.input)) from None


def _file(upload: Upload, request: Request) -> UploadedFile:
    given = _MEDIA.fullmatch((request.headers.get("content-type") or "").strip(" \t"))
    media = given[1].lower() if given else ""
    if media not in upload.media:
        said = f"the body must be {', '.join(upload.media)}; in UTF-8"
        raise Refused.because(ErrorCode.UNSUPPORTED_MEDIA_TYPE, said, "http.content_type")
    return UploadedFile(media, request.body)


def read_parameters(operation: Operation, request: Request) -> Mapping[str, str]:
    """Return the query parameters of the operation; Refused if they are invalid."""
    known = {each.name: each for each in operation.query}
    form = read_query(request.query)
    if unknown := [name for name in form.names if name not in known]:
        names = ", ".join(known)
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            f"this takes the query parameters {names}, and no others"
            if known
            else "this takes no query parameters",
            "query.unknown",
            names,
            ", ".join(unknown),
        )
    faults: list[MetadataError] = []
    said: dict[str, str] = {}
    for name, parameter in known.items():
        value = form.get(name)
        if value is None:
            continue
        if detail := _wrong(parameter, value):
            faults.append(MetadataError(name, detail))
        said[name] = value
    if faults:
        raise InvalidInput(faults)
    return said


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
        known = cast("list[str]", schema["enum"])
        if value not in known:
            return f"one of: {', '.join(known)}"
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
        found = await store.read(lambda tx: authenticate(tx, key, text, now))
        if found is None:
            raise Refused(NO_TOKEN)
        token, program, powers = found
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
        wanted = preconditions(
            request.headers.all("if-match"), request.headers.all("if-none-match")
        )
        query = read_parameters(operation, request)
        body, told = read_body(operation, self.reader, request)
        if operation.requires_if_match and wanted.match is None:
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
            wanted,
            by_program=True,
        )
        await check_read_only(call, self.reader, told)
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
    reader = next((each for each in operations if each.method == "GET"), None)
    methods: dict[str, Endpoint] = {
        each.method: OperationEndpoint(services, problems, each, reader, object_argument)
        for each in operations
    }
    whole, refuse = f"{PREFIX}{path}", problems.at(f"{PREFIX}{path}")
    for each in operations:
        if each.upload is not None:
            limit = each.upload.largest(services.settings)
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
    said = urlencode({**query, CURSOR: after})
    return f'<{path}?{said}>; rel="next"'
