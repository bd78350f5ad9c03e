"""For resource servers: identity, revocations, and which granted scopes apps used.

The resource server forwards a caller's access token and the request. The token's liveness and scope
are checked here, on every call. The resource server authenticates by HTTP Basic.

Entries are in order of time. A follower continues with the cursor it received. The newest minute
and a half is repeated every time, because a slow transaction may commit late and servers whose
clocks differ write out of order. As server-sent events, an entry is delivered within a second.

Each API reports uses of its own tokens. A scope says which API it is for only together with the
credential that reports it, so a report about another API's token changes nothing.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.records import RecordRequest, Records, Rejected
from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequest,
    ClientRequestAuthentication,
)
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.model.event.event import SYSTEM, USUAL_ACTOR, by_client
from valetkey.authorization.model.grant import require_live
from valetkey.authorization.protocol.client_authentication.method import not_proven
from valetkey.authorization.storage.revocations import RevocationRecord, RevokedKind
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import ScopeUse
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.read import AccessTokenReader, Read
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.tracing import RequestSample, RequestSamples
from valetkey.web.body import Form, read_json, read_query
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
            record_request = _read_question(request.body)
            read = await self.reader.read_by_value(record_request.access_token, request.at)

            def read_answer(tx: Transaction) -> _Answer:
                return self._answer(tx, record_request, read, request.at)

            answer = await self._running(record_request.verb)(read_answer)
        except Refused as refused:
            return self.refuse(request, refused.refusal)
        if isinstance(answer, Refusal):
            return self.refuse(request, answer)
        if isinstance(answer, Rejected):
            return self._reject(request, answer)
        return json_response(answer, 200, (("cache-control", "no-store"),))

    def _running(self, verb: str) -> Callable[[_Work], Awaitable[_Answer]]:
        if verb == "read":
            return self.store.read
        # A list may be long; it must not delay other requests.
        if verb == "list":
            return self.store.scan
        return partial(self.store.write, done_by=USUAL_ACTOR)

    def _answer(
        self, tx: Transaction, record_request: RecordRequest, read: Read | None, now: Instant
    ) -> _Answer:
        token_state = self.reader.find_live(tx, record_request.access_token, read, now)
        if token_state is None or require_live(token_state.liveness, now) is not None:
            return Refusal(
                ErrorCode.INVALID_TOKEN,
                "the access token expired, was revoked, or is not one of ours",
                "identity.token",
                "a live access token",
                "another" if token_state is None else token_state.liveness.ended(now),
            )
        by = by_client(token_state.read.client_id)
        return self.records.answer(tx.acting(by), token_state.read, record_request, now)

    def _reject(self, request: Request, rejected: Rejected) -> Response:
        response = self.refuse(request, rejected.refusal)
        body = msgspec.json.decode(response.body, type=dict[str, object])
        body["errors"] = [
            {"pointer": f"/{fault.field}", "detail": fault.detail} for fault in rejected.faults
        ]
        return json_response(body, response.status, (("cache-control", "no-store"),))


def _read_question(body: bytes) -> RecordRequest:
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


EVENT_STREAM = "text/event-stream"

MOST_STREAMS = 64
"""Maximum number of streams in one process; further followers poll."""

_EVERY = 0.5  # seconds between two reads of the table, whichever process wrote to it
_BEAT = 2  # reads between two heartbeats
_LOOKS = 600  # then the follower reconnects and authenticates again
_HEADERS = (
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-store, no-transform"),
    # nginx would otherwise buffer events.
    ("x-accel-buffering", "no"),
)
_FULL = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "too many follow this feed already; poll it instead",
    "revocations.streams",
    f"at most {MOST_STREAMS} streams",
    "one more",
    retry_after=60,
)


class FeedPage(Struct, frozen=True):
    """The entries after a cursor, the next cursor, and whether there are more."""

    cursor: str
    revocations: Sequence[RevocationRecord]
    more: bool
    at: Instant
    """The time from which entries may be repeated."""


Look = Callable[[str], Awaitable[FeedPage]]
"""Reads the page after a cursor. Raises Refused for an invalid cursor."""


class RevocationStreams:
    """The open streams of one process."""

    def __init__(self) -> None:
        """Start without streams."""
        self._open = 0

    async def open(self, cursor: str, look: Look) -> Response:
        """Stream the pages that `look` reads after `cursor`.

        Raises Refused (503 if there are too many).
        """
        if self._open >= MOST_STREAMS:
            raise Refused(_FULL)
        # Read before the response starts, so that an invalid cursor is refused.
        return Response(200, b"", _HEADERS, self._events(await look(cursor), look))

    async def _events(self, page: FeedPage, read: Look) -> AsyncGenerator[bytes]:
        self._open += 1
        try:
            yield _event(page.cursor, page.revocations)
            revoked = {
                (revocation.kind, revocation.id): revocation.revoked_at
                for revocation in page.revocations
            }
            for look in range(1, _LOOKS):
                if not page.more:
                    await asyncio.sleep(_EVERY)
                page = await read(page.cursor)
                # The overlap is repeated by every page; a stream sends it once.
                news = [e for e in page.revocations if revoked.get((e.kind, e.id)) != e.revoked_at]
                revoked |= {
                    (revocation.kind, revocation.id): revocation.revoked_at for revocation in news
                }
                revoked = {key: at for key, at in revoked.items() if at >= page.at}
                if news:
                    yield _event(page.cursor, news)
                elif look % _BEAT == 0:
                    yield f": alive\nid: {page.cursor}\n\n".encode()
        except (DatabaseUnavailable, Overloaded):
            return
        finally:
            self._open -= 1


def _event(cursor: str, revocations: Sequence[RevocationRecord]) -> bytes:
    body = msgspec.json.encode({"cursor": cursor, "revocations": revocations})
    # JSON contains no raw line break, so one data line holds it.
    return b"event: revocations\nid: %b\ndata: %b\n\n" % (cursor.encode(), body)


PAGE = 1_000
"""Maximum number of entries in one response."""

OVERLAP = 90
"""Seconds of entries that are repeated: clocks may differ by 60, a transaction may take 30."""

_CURSOR = re.compile(r"([0-9]{1,12})(?:\.([a-z]{1,10})\.([\x21-\x7e]{1,500}))?")


class RevocationsEndpoint:
    """The feed for the resource server or a declared API: one page, or a stream of events."""

    def __init__(
        self,
        store: Store,
        gate: ResourceServerAuthentication,
        refuse: ClientRefusal,
        now: Callable[[], Instant],
    ) -> None:
        """Authenticate with `gate` and read from `store`."""
        self._store = store
        self._gate = gate
        self._refuse = refuse
        self._now = now
        self._streams = RevocationStreams()

    async def __call__(self, request: Request) -> Response:
        """Return a page of at most 1,000 entries and the cursor of the next one.

        Callers that accept `text/event-stream` receive pages as they are written; they continue
        after `Last-Event-ID`.
        """
        try:
            look = partial(self._look, await self._gate.api(request))
            after = read_query(request.query or request.hidden_query).get("after") or ""
            if EVENT_STREAM in (request.headers.get("accept") or ""):
                resumed = request.headers.get("last-event-id")
                return await self._streams.open(after if resumed is None else resumed, look)
            page = await look(after)
        except Refused as refused:
            return self._refuse(request, refused.refusal)
        body = {"cursor": page.cursor, "revocations": page.revocations}
        return json_response(body, 200, (("cache-control", "no-store"),))

    async def _look(self, api: Api, cursor: str) -> FeedPage:
        at, kind, subject = _read_cursor(cursor)
        # Taken before the table is read: later entries belong to the next page.
        now = self._now()

        def read(tx: Transaction) -> Sequence[RevocationRecord]:
            if api.is_default:
                return tx.revocations.page(at, kind, subject, PAGE)
            return tx.revocations.page_of_api(api, at, kind, subject, PAGE)

        records = await self._store.read(read)
        if len(records) == PAGE:
            last = records[-1]
            cursor = f"{last.revoked_at}.{last.kind}.{last.id}"
            return FeedPage(cursor, _for_follower(records), True, last.revoked_at)
        after = Instant(max(0, now - OVERLAP))
        return FeedPage(str(after), _for_follower(records), False, after)


def _for_follower(records: Sequence[RevocationRecord]) -> tuple[RevocationRecord, ...]:
    """Return the records for a follower: to an API, its own end is the end of everything."""
    return tuple(
        replace(record, kind=RevokedKind.ALL, id="all")
        if record.kind is RevokedKind.API
        else record
        for record in records
    )


def _read_cursor(text: str) -> tuple[Instant, str, str]:
    if not text:
        return Instant(0), "", ""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "after must be a cursor that this feed gave",
            "revocations.cursor",
            "a cursor",
            "something else",
        )
    return Instant(int(match[1])), match[2] or "", match[3] or ""


MOST_USES = 500
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
    uses: Annotated[list[_Use], msgspec.Meta(max_length=MOST_USES)] = []
    requests: Annotated[list[_Sample], msgspec.Meta(max_length=MOST_USES)] = []


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
            report = _read_report(request.body)
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
            self.samples.add_samples([_sample(sample, now) for sample in report.requests])
        return Response(204, b"", (("cache-control", "no-store"),))

    def _note(self, api_id: str, uses: Sequence[ScopeUse], tx: Transaction) -> None:
        api = self.gate.apis.find_by_id(tx, api_id)
        if api is not None and api.disabled_at is None:
            for use in uses:
                tx.scope_uses.record(use, (api.id, api.generation))


def _sample(sample: _Sample, now: Instant) -> RequestSample:
    return RequestSample(
        sample.client_id,
        _within(sample.at, now),
        sample.method,
        sample.endpoint,
        sample.status,
        sample.milliseconds,
        "",
        sample.scope,
        sample.request_id,
    )


def _within(at: int, now: Instant) -> Instant:
    # Clocks differ: future times are replaced, and nothing is older than a day.
    return Instant(max(now - _OLDEST, min(at, now)))


def _read_report(body: bytes) -> _Report:
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
