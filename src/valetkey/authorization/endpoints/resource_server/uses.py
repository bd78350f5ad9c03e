"""POST /oauth/uses: which granted scopes apps used, as reported by resource servers.

Each API reports uses of its own tokens. A scope says which API it is for only together with the
credential that reports it, so a report about another API's token changes nothing.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Struct

from valetkey.authorization.endpoints.client.request import ClientRefusal
from valetkey.authorization.endpoints.resource_server.identity import ResourceServerAuthentication
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.storage.register.usage import ScopeUse
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.request_samples import RequestSample, RequestSamples
from valetkey.web.body import read_json
from valetkey.web.exchange import Request, Response

MOST = 500
"""Maximum number of uses in one report."""

_MOST_WATCHED = 1_000
_BATCH = 50  # Uses per transaction, which bounds how long others wait for it.
_OLDEST = days(1)

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+\Z")]
_Scope = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[\x21-\x7e]*\Z")]
"""A scope as tokens have it; "" is a use of a declared API that users allow without scopes."""


class _Use(msgspec.Struct):
    grant_id: _Name
    at: int
    scope: _Scope = ""


class _Sample(msgspec.Struct):
    client_id: _Name
    at: int
    method: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{1,10}\Z")]
    endpoint: Annotated[str, msgspec.Meta(max_length=200, pattern=r"^/v2/[\x21-\x7e]*\Z")]
    status: Annotated[int, msgspec.Meta(ge=200, le=399)]
    milliseconds: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    scope: _Scope = ""
    request_id: _Scope = ""


class _Report(msgspec.Struct):
    """The scopes whose use this resource server observes, and which were used with which grant.

    `requests` are samples of successful ones.
    """

    watches: Annotated[list[_Scope], msgspec.Meta(max_length=_MOST_WATCHED)] = []
    uses: Annotated[list[_Use], msgspec.Meta(max_length=MOST)] = []
    requests: Annotated[list[_Sample], msgspec.Meta(max_length=MOST)] = []


class UsesEndpoint(Struct, frozen=True):
    """Receives reports of use from the resource server and from declared APIs."""

    store: Store
    gate: ResourceServerAuthentication
    refuse: ClientRefusal
    samples: RequestSamples

    async def __call__(self, request: Request) -> Response:
        """Return 204. Scopes that no live grant allows at the API are ignored."""
        try:
            api = await self.gate.api(request)
            report = _parse(request.body)
        except Refused as refused:
            return self.refuse(request, refused.refusal)
        now = request.at
        # Scopes that their API does not declare are dropped: no page could show them.
        watches = [
            api.qualified(name)
            for name in report.watches
            if (name and "#" not in name if api.is_default else not name or name in api.scopes)
        ]
        await self.store.write(lambda tx: tx.scope_uses.watch(watches, now), done_by=SYSTEM)
        uses = [
            ScopeUse(use.grant_id, api.qualified(use.scope), _within(use.at, now))
            for use in report.uses
            # The names of other APIs' scopes in grants contain it.
            if not (api.is_default and "#" in use.scope)
        ]
        for start in range(0, len(uses), _BATCH):
            await self.store.write(
                partial(self._note, api.id, uses[start : start + _BATCH]), done_by=SYSTEM
            )
        # Only the server's own API: another could fill the list of any app.
        if api.is_default:
            self.samples.add_samples([_sample(each, now) for each in report.requests])
        return Response(204, b"", (("cache-control", "no-store"),))

    def _note(self, api_id: str, uses: Sequence[ScopeUse], tx: Transaction) -> None:
        api = self.gate.apis.find_by_id(tx, api_id)
        if api is not None and api.disabled_at is None:
            for use in uses:
                tx.scope_uses.note(use, (api.id, api.generation))


def _sample(told: _Sample, now: Instant) -> RequestSample:
    return RequestSample(
        told.client_id,
        _within(told.at, now),
        told.method,
        told.endpoint,
        told.status,
        told.milliseconds,
        "",
        told.scope,
        told.request_id,
    )


def _within(at: int, now: Instant) -> Instant:
    # Clocks differ: future times are replaced, and nothing is older than a day.
    return Instant(max(now - _OLDEST, min(at, now)))


def _parse(body: bytes) -> _Report:
    try:
        return msgspec.convert(read_json(body), type=_Report)
    except msgspec.ValidationError as error:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "this is not a report of use",
            "uses.shape",
            "watches: names of scopes; uses: grant_id, scope, at",
            str(error),
        ) from None
