"""Who calls the admin API, whether they may, and how each operation of the table is run."""

from dataclasses import dataclass

from valetkey.authorization.deeds.admin.api_tokens import authenticate
from valetkey.authorization.endpoints.admin_api.operation import (
    PREFIX,
    Call,
    Desk,
    Operation,
    Told,
)
from valetkey.authorization.endpoints.admin_api.paging import link
from valetkey.authorization.endpoints.admin_api.problem import NO_TOKEN, Problems, Wrong
from valetkey.authorization.endpoints.admin_api.reading import read_body, read_parameters
from valetkey.kernel.preconditions import REQUIRED, Preconditions, preconditions
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, json_response

_BEARER = "bearer "
_NOTED_EVERY = 60
_NO_STORE = ("cache-control", "no-store")
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class Door:
    """Runs one operation. Cookies are never looked at: no page can act through a browser."""

    desk: Desk
    problems: Problems
    operation: Operation

    async def __call__(self, request: Request) -> Response:
        """The answer, or why it is no."""
        path = f"{PREFIX}{self.operation.path}"
        try:
            return await self._act(request)
        except Wrong as wrong:
            return self.problems.answer(request, wrong.refusal, path, wrong.faults)
        except Refused as refused:
            return self.problems.answer(request, refused.refusal, path)

    async def _act(self, request: Request) -> Response:
        operation, store, now = self.operation, self.desk.store, request.at
        text = _bearer(request)
        key = self.desk.foundation.keyring.fingerprint_key
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
                    f"this needs a token with the permission {operation.permission.value}, made"
                    " by somebody whose role has it",
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
        call = Call(program, powers, now, request.arguments, query, body, wanted)
        told = await operation.act(self.desk, call)
        if isinstance(told, Response):
            return told
        return self._answer(told, request, call, wanted)

    def _answer(self, told: Told, request: Request, call: Call, wanted: Preconditions) -> Response:
        headers = [_NO_STORE, *told.headers]
        if told.etag:
            headers.append(("etag", told.etag))
        if told.next:
            headers.append(("link", link(request.path, call.query, told.next)))
        if request.method == "GET" and told.etag and wanted.has(told.etag):
            return Response(_NOT_MODIFIED, b"", tuple(headers))
        if self.operation.gives is None:
            return Response(self.operation.status, b"", tuple(headers))
        return json_response(told.value, self.operation.status, tuple(headers))


def _bearer(request: Request) -> str:
    sent = request.headers.get("authorization") or ""
    return sent[len(_BEARER) :].strip(" ") if sent[: len(_BEARER)].lower() == _BEARER else ""
