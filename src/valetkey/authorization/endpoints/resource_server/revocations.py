"""GET /oauth/revocations: what a resource server must refuse although its signature is good.

Entries come in the order of time. A follower asks again with the cursor it got last. The newest
half minute is told again each time, because a slow transaction may have been overtaken.
"""

import re
from dataclasses import dataclass

from valetkey.authorization.endpoints.client.answer import ClientRefusal
from valetkey.authorization.endpoints.resource_server.gate import ResourceServerGate
from valetkey.authorization.storage.revocations import RevocationRecord
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.form import read_query

PAGE = 1_000
"""Entries in one answer."""

OVERLAP = 30
"""Seconds that are told again."""

_CURSOR = re.compile(r"([0-9]{1,12})(?:\.([a-z]{1,10})\.([\x21-\x7e]{1,120}))?")


@dataclass(frozen=True, slots=True)
class RevocationsEndpoint:
    """The feed, for the resource server alone."""

    store: Store
    gate: ResourceServerGate
    refuse: ClientRefusal

    async def __call__(self, request: Request) -> Response:
        """A page of at most 1,000 entries and the cursor with which the next one is asked."""
        try:
            await self.gate.require(request)
            after = read_query(request.query or request.hidden_query).get("after") or ""
            at, kind, subject = _parse(after)
        except Refused as refused:
            return self.refuse(request, refused.refusal)
        records = await self.store.read(
            lambda tx: tuple(tx.revocations.page(at, kind, subject, PAGE))
        )
        body = {"cursor": _cursor(records, request.at), "revocations": records}
        return json_response(body, 200, (("cache-control", "no-store"),))


def _parse(text: str) -> tuple[Instant, str, str]:
    if not text:
        return Instant(0), "", ""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Refused(
            Refusal(
                ErrorCode.INVALID_REQUEST,
                "after must be a cursor that this feed gave",
                "revocations.cursor",
                "a cursor",
                "something else",
            )
        )
    return Instant(int(match[1])), match[2] or "", match[3] or ""


def _cursor(records: tuple[RevocationRecord, ...], now: Instant) -> str:
    if len(records) == PAGE:
        last = records[-1]
        return f"{last.revoked_at}.{last.kind}.{last.id}"
    return str(max(0, now - OVERLAP))
