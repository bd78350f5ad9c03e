"""The endpoint of one operation: authenticate the token, read the input, run it, answer."""

from dataclasses import dataclass

from valetkey.authorization.actions.admin.api_tokens import authenticate
from valetkey.authorization.endpoints.admin_api.problem import NO_TOKEN, Problems
from valetkey.authorization.endpoints.admin_api.reading import read_body, read_parameters
from valetkey.authorization.operations.operation import (
    CHANCE,
    PREFIX,
    Call,
    InvalidInput,
    Operation,
    Result,
    Services,
    link,
)
from valetkey.kernel.preconditions import REQUIRED, preconditions
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, json_response

_BEARER = "bearer "
_NOTED_EVERY = 60
_NO_STORE = ("cache-control", "no-store")
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class OperationEndpoint:
    """Runs one operation. It ignores cookies: no page can act through a browser."""

    services: Services
    problems: Problems
    operation: Operation

    async def __call__(self, request: Request) -> Response:
        """Return the result, or the problem."""
        path = f"{PREFIX}{self.operation.path}"
        try:
            return await self._run(request)
        except InvalidInput as invalid:
            return self.problems.answer(request, invalid.refusal, path, invalid.faults)
        except Refused as refused:
            return self.problems.answer(request, refused.refusal, path)

    async def _run(self, request: Request) -> Response:
        operation, store, now = self.operation, self.services.store, request.at
        text = _bearer(request)
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
            raise Refused(
                Refusal(
                    ErrorCode.FORBIDDEN,
                    f"this needs a token with the permission {operation.permission.value}, "
                    "created by a user whose role has it",
                    "admin_api.permission",
                    operation.permission.value,
                    " ".join(sorted(powers.permissions)),
                )
            )
        wanted = preconditions(
            request.headers.all("if-match"), request.headers.all("if-none-match")
        )
        query = read_parameters(operation, request)
        body = read_body(operation, request)
        if operation.guarded and wanted.match is None:
            raise Refused(REQUIRED)
        chance = self.services.random(CHANCE)
        call = Call(
            self.services,
            operation,
            program,
            now,
            chance,
            request.arguments,
            query,
            body,
            wanted,
        )
        result = await operation.run(call)
        return result if isinstance(result, Response) else self._answer(result, request, call)

    def _answer(self, result: Result, request: Request, call: Call) -> Response:
        headers: list[tuple[str, str]] = [_NO_STORE]
        if result.etag:
            headers.append(("etag", result.etag))
        if result.next:
            headers.append(("link", link(request.path, call.query, result.next)))
        if request.method == "GET" and result.etag and call.preconditions.has(result.etag):
            return Response(_NOT_MODIFIED, b"", tuple(headers))
        if self.operation.gives is None:
            return Response(self.operation.status, b"", tuple(headers))
        return json_response(result.value, self.operation.status, tuple(headers))


def _bearer(request: Request) -> str:
    sent = request.headers.get("authorization") or ""
    return sent[len(_BEARER) :].strip(" ") if sent[: len(_BEARER)].lower() == _BEARER else ""
