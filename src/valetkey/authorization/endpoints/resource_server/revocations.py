"""GET /oauth/revocations: what a resource server must refuse although its signature is valid.

Entries are in order of time. A follower continues with the cursor it received. The newest minute
and a half is repeated every time, because a slow transaction may commit late and servers whose
clocks differ write out of order.
"""

import re
from collections.abc import Callable

from valetkey.authorization.endpoints.client.answer import ClientRefusal
from valetkey.authorization.endpoints.resource_server.gate import ResourceServerGate
from valetkey.authorization.endpoints.resource_server.revocation_stream import (
    EVENT_STREAM,
    Page,
    RevocationStreams,
)
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.form import read_query

PAGE = 1_000
"""Entries in one response."""

OVERLAP = 90
"""Seconds that are repeated: clocks may differ by 60, and a transaction may take 30."""

_CURSOR = re.compile(r"([0-9]{1,12})(?:\.([a-z]{1,10})\.([\x21-\x7e]{1,120}))?")


class RevocationsEndpoint:
    """The feed for the resource server: one page, or a stream of events."""

    def __init__(
        self,
        store: Store,
        gate: ResourceServerGate,
        refuse: ClientRefusal,
        now: Callable[[], Instant],
    ) -> None:
        """Authenticate with `gate`, read from `store`."""
        self._store = store
        self._gate = gate
        self._refuse = refuse
        self._now = now
        self._streams = RevocationStreams(self._look)

    async def __call__(self, request: Request) -> Response:
        """Return a page of at most 1,000 entries and the cursor of the next one.

        Callers that accept `text/event-stream` receive pages as they come; `Last-Event-ID` says
        where to continue.
        """
        try:
            await self._gate.require(request)
            after = read_query(request.query or request.hidden_query).get("after") or ""
            if EVENT_STREAM in (request.headers.get("accept") or ""):
                resumed = request.headers.get("last-event-id")
                return await self._streams.open(after if resumed is None else resumed)
            page = await self._look(after)
        except Refused as refused:
            return self._refuse(request, refused.refusal)
        body = {"cursor": page.cursor, "revocations": page.revocations}
        return json_response(body, 200, (("cache-control", "no-store"),))

    async def _look(self, cursor: str) -> Page:
        at, kind, subject = _parse(cursor)
        # Taken before the table is read: later entries belong to the next page.
        now = self._now()
        records = await self._store.read(
            lambda tx: tuple(tx.revocations.page(at, kind, subject, PAGE))
        )
        if len(records) == PAGE:
            last = records[-1]
            return Page(f"{last.revoked_at}.{last.kind}.{last.id}", records, True, last.revoked_at)
        after = Instant(max(0, now - OVERLAP))
        return Page(str(after), records, False, after)


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
