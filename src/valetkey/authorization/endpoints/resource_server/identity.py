"""POST /oauth/identity: records stored at the authorization server, read with a user's token.

The resource server forwards a caller's access token and the request. The token's liveness and scope
are checked here, on every call. The resource server authenticates by HTTP Basic.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.records import RecordRequest, Records, Rejected
from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequest,
    ClientRequestAuthentication,
)
from valetkey.authorization.model.event.event import USUAL_ACTOR, by_client
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import RESOURCE_SERVER
from valetkey.authorization.protocol.client_authentication.method import not_proven
from valetkey.authorization.protocol.liveness import require_live
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.read import AccessTokenReader, Read
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.body import Form, read_json
from valetkey.web.exchange import Request, Response, json_response


class ResourceServerAuthentication(Struct, frozen=True):
    """Admits only the resource server, or also the credentials of declared APIs."""

    client_auth: ClientRequestAuthentication
    apis: ApiDirectory

    async def api(self, request: Request) -> Api:
        """Return the API that sent the request. Refused with `invalid_client` for other clients."""
        proven = await self.client_auth.authenticate(
            request, ClientRequest(Form({}), in_query=False)
        )
        api = await self.apis.of_credential(proven.client)
        if api is None:
            raise Refused(not_proven("resource_server", "an API", "another client"))
        return api

    async def require(self, request: Request) -> None:
        """Require the resource server as the caller. Refused with `invalid_client` otherwise."""
        proven = await self.client_auth.authenticate(
            request, ClientRequest(Form({}), in_query=False)
        )
        if proven.client.id != RESOURCE_SERVER:
            raise Refused(not_proven("resource_server", RESOURCE_SERVER, "another client"))


_Answer = dict[str, object] | Refusal | Rejected
_Work = Callable[[Transaction], _Answer]


class IdentityEndpoint(Struct, frozen=True):
    """Serves `account`, `client` and `authorizations` to the resource server only."""

    store: Store
    gate: ResourceServerAuthentication
    reader: AccessTokenReader
    records: Records
    refuse: ClientRefusal

    async def __call__(self, request: Request) -> Response:
        """Return `{"record": …}` or `{"records": […]}`; a refusal names the invalid field."""
        try:
            await self.gate.require(request)
            asked = _parse(request.body)
            read = await self.reader.read_by_value(asked.access_token, request.at)

            def read_answer(tx: Transaction) -> _Answer:
                return self._answer(tx, asked, read, request.at)

            said = await self._running(asked.verb)(read_answer)
        except Refused as refused:
            return self.refuse(request, refused.refusal)
        if isinstance(said, Refusal):
            return self.refuse(request, said)
        if isinstance(said, Rejected):
            return self._reject(request, said)
        return json_response(said, 200, (("cache-control", "no-store"),))

    def _running(self, verb: str) -> Callable[[_Work], Awaitable[_Answer]]:
        if verb == "read":
            return self.store.read
        # A list may be long; it must not delay other requests.
        if verb == "list":
            return self.store.scan
        return partial(self.store.write, done_by=USUAL_ACTOR)

    def _answer(
        self, tx: Transaction, asked: RecordRequest, read: Read | None, now: Instant
    ) -> _Answer:
        found = self.reader.find_live(tx, asked.access_token, read, now)
        if found is None or require_live(found.liveness, now) is not None:
            return Refusal(
                ErrorCode.INVALID_TOKEN,
                "the access token expired, was revoked, or is not one of ours",
                "identity.token",
                "a live access token",
                "another" if found is None else found.liveness.ended(now),
            )
        by = by_client(found.read.client_id)
        return self.records.answer(tx.acting(by), found.read, asked, now)

    def _reject(self, request: Request, rejected: Rejected) -> Response:
        response = self.refuse(request, rejected.refusal)
        body = msgspec.json.decode(response.body, type=dict[str, object])
        body["errors"] = [
            {"pointer": f"/{fault.field}", "detail": fault.detail} for fault in rejected.faults
        ]
        return json_response(body, response.status, (("cache-control", "no-store"),))


def _parse(body: bytes) -> RecordRequest:
    try:
        return msgspec.convert(read_json(body), type=RecordRequest)
    except msgspec.ValidationError as error:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "this is not a question about a record",
            "identity.shape",
            "access_token, object, verb",
            str(error),
        ) from None
