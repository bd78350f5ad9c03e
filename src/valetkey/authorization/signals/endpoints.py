"""The transmitter over HTTP: metadata, management of streams, and poll (SSF 1.0, RFC 8936)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar, cast

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, permissions_of
from valetkey.authorization.endpoints.client.userinfo import NO_TOKEN, BearerRefusal
from valetkey.authorization.feature import EndpointParts
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import USUAL_ACTOR, by_client
from valetkey.authorization.model.grant import require_live
from valetkey.authorization.model.user import Uid
from valetkey.authorization.signals.model import (
    LEGACY_PUSH,
    MANAGE,
    POLL,
    PUSH,
    READ,
    SUPPORTED,
    VERIFY_EVERY,
    SignalFailure,
    SignalMessage,
    SignalStream,
    StreamProfile,
    StreamStatus,
    SubjectFormat,
)
from valetkey.authorization.signals.rules import streams as rules
from valetkey.authorization.signals.rules.streams import (
    ENTROPY,
    StreamChanges,
    StreamChoices,
    StreamDelivery,
    members_of,
    no_such_stream,
    read_subject,
)
from valetkey.authorization.signals.rules.tokens import EventTokens
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.revision import revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.tokens.read import AccessTokenReader
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import ordered_id
from valetkey.kernel.text import printable
from valetkey.web.body import read_json, read_query
from valetkey.web.exchange import Endpoint, Request, Response, json_response
from valetkey.web.router import Body, Route
from valetkey.web.security_headers import any_origin

METADATA = "/.well-known/ssf-configuration"
CONFIGURATION = "/ssf/streams"
STATUS = "/ssf/status"
ADD_SUBJECT = "/ssf/subjects/add"
REMOVE_SUBJECT = "/ssf/subjects/remove"
VERIFICATION = "/ssf/verification"

MOST_AT_ONCE = 50
"""Maximum number of tokens in one response to a poll."""

MOST_ACKNOWLEDGED = 1_000
"""Maximum number of tokens that one poll acknowledges, and of those that it reports."""

POLL_SECONDS = 8
"""How long a poll waits for a token, with a look each second."""

MOST_POLLS = 64
"""Maximum number of polls that wait in one process; further ones are answered at once."""

_MOST_EVENTS = 50
_LONGEST = 500
_DESCRIPTION = 200
_REASON = 200
_STATE = 1_000
_LOOK_EVERY = 1.0
_MUST_MATCH = (
    "iss",
    "aud",
    "events_supported",
    "events_delivered",
    "min_verification_interval",
)

T = TypeVar("T")
Members = Mapping[str, object]
Work = Callable[[Transaction, Client], T]


def routes(parts: EndpointParts) -> tuple[Route, ...]:
    """Return the routes of the transmitter."""
    services, plain = parts.services, parts.refuse
    issuer = services.settings.authorization.url
    manages, reads = BearerRefusal(plain, MANAGE), BearerRefusal(plain, READ)
    subjects = Subjects(services.fingerprints)
    reader = AccessTokenReader(
        issuer, services.settings.audience, services.keys, services.fingerprints
    )
    it = Transmitter(
        issuer,
        services.store,
        reader,
        EventTokens(issuer, services.keys, subjects),
        StreamChanges(services.settings.fetch.allow, services.outbox.keyring.sealer),
        services.random,
    )
    polls = _Polls(it)
    configuration: dict[str, Endpoint] = {
        "GET": it.read,
        "POST": it.create,
        "PATCH": it.update,
        "PUT": it.replace,
        "DELETE": it.delete,
    }
    return (
        Route(METADATA, {"GET": it.metadata}, plain, cors=any_origin),
        Route(CONFIGURATION, configuration, manages, Body.JSON),
        Route(f"{CONFIGURATION}/{{stream_id}}/poll", {"POST": polls.poll}, reads, Body.JSON),
        Route(STATUS, {"GET": it.read_status, "POST": it.set_status}, manages, Body.JSON),
        Route(ADD_SUBJECT, {"POST": it.add_subject}, manages, Body.JSON),
        Route(REMOVE_SUBJECT, {"POST": it.remove_subject}, manages, Body.JSON),
        Route(VERIFICATION, {"POST": it.verify}, manages, Body.JSON),
    )


class Transmitter(Struct, frozen=True):
    """The management API; each client sees the streams that it receives, and no others."""

    issuer: str
    store: Store
    reader: AccessTokenReader
    tokens: EventTokens
    changes: StreamChanges
    random: Callable[[int], bytes]

    async def metadata(self, request: Request) -> Response:
        """Return the transmitter configuration metadata (section 7.1)."""
        del request
        return json_response(
            {
                "spec_version": "1_0",
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/oauth/jwks",
                "delivery_methods_supported": [PUSH, POLL, LEGACY_PUSH],
                "configuration_endpoint": f"{self.issuer}{CONFIGURATION}",
                "status_endpoint": f"{self.issuer}{STATUS}",
                "add_subject_endpoint": f"{self.issuer}{ADD_SUBJECT}",
                "remove_subject_endpoint": f"{self.issuer}{REMOVE_SUBJECT}",
                "verification_endpoint": f"{self.issuer}{VERIFICATION}",
                "authorization_schemes": [{"spec_urn": "urn:ietf:rfc:6749"}],
                "default_subjects": "ALL",
            },
            200,
            (("cache-control", "public, max-age=60"),),
        )

    async def create(self, request: Request) -> Response:
        """Create a stream: 201."""
        members = _members(request)
        wish = _wanted(members, None, whole=True)
        entropy = self.random(ENTROPY)

        def create(tx: Transaction, client: Client) -> SignalStream:
            return self.changes.create(tx, client, wish, entropy, request.at)

        made = await self._write(request, create)
        return json_response(self.configuration(made), HTTPStatus.CREATED)

    async def read(self, request: Request) -> Response:
        """Return one stream, or all of the client."""
        stream_id = _named(request)

        def read(tx: Transaction, client: Client) -> SignalStream | Sequence[SignalStream]:
            if stream_id is None:
                return SignalStreams.of(tx).of_client(client.id)
            return _own(tx, client, stream_id)

        result = await self._read(request, read)
        if isinstance(result, SignalStream):
            return json_response(self.configuration(result))
        return json_response([self.configuration(stream) for stream in result])

    async def update(self, request: Request) -> Response:
        """Change the properties that are sent, and keep the others."""
        return await self._change(request, whole=False)

    async def replace(self, request: Request) -> Response:
        """Replace all properties that the receiver chooses."""
        return await self._change(request, whole=True)

    async def delete(self, request: Request) -> Response:
        """Delete a stream: 204."""
        stream_id = _named(request)
        if stream_id is None:
            raise _invalid("stream_id", "a query parameter")

        def remove(tx: Transaction, client: Client) -> bool:
            return rules.remove(tx, _own(tx, client, stream_id), request.at)

        await self._write(request, remove)
        return Response(HTTPStatus.NO_CONTENT)

    async def read_status(self, request: Request) -> Response:
        """Return the status of a stream."""
        stream_id = _named(request)
        if stream_id is None:
            raise _invalid("stream_id", "a query parameter")
        stream = await self._read(request, lambda tx, client: _own(tx, client, stream_id))
        return json_response(_status(stream))

    async def set_status(self, request: Request) -> Response:
        """Change the status of a stream."""
        members = _members(request)
        stream_id, reason = _stream_id(members), _text(members, "reason", _REASON) or ""
        wish, entropy = _text(members, "status", _REASON), self.random(ENTROPY)
        if wish not in set(StreamStatus):
            raise _invalid("status", "one of enabled, paused, disabled")
        status = StreamStatus(wish)

        def change(tx: Transaction, client: Client) -> SignalStream:
            stream = _own(tx, client, stream_id)
            rules.set_status(tx, stream, status, reason, entropy, request.at, by_receiver=True)
            return _own(tx, client, stream_id)

        return json_response(_status(await self._write(request, change)))

    async def add_subject(self, request: Request) -> Response:
        """Send what happens to a user: 200."""
        await self._choose(request, included=True)
        return Response(HTTPStatus.OK)

    async def remove_subject(self, request: Request) -> Response:
        """Send nothing about a user any more: 204."""
        await self._choose(request, included=False)
        return Response(HTTPStatus.NO_CONTENT)

    async def verify(self, request: Request) -> Response:
        """Send a verification event: 204."""
        members = _members(request)
        stream_id, state = _stream_id(members), _text(members, "state", _STATE)
        entropy = self.random(ENTROPY)

        def verify(tx: Transaction, client: Client) -> None:
            stream = _own(tx, client, stream_id)
            rules.verify(tx, stream, state, entropy, request.at, by_receiver=True)

        await self._write(request, verify)
        return Response(HTTPStatus.NO_CONTENT)

    def configuration(self, stream: SignalStream) -> Members:
        """Return the configuration of a stream as its receiver sees it, without its secret."""
        delivery = {"method": stream.method, "endpoint_url": stream.url}
        if not stream.is_push:
            delivery["endpoint_url"] = f"{self.issuer}{CONFIGURATION}/{stream.id}/poll"
        members: dict[str, object] = {
            "stream_id": stream.id,
            "iss": self.issuer,
            "aud": stream.audience[0] if len(stream.audience) == 1 else stream.audience,
            "delivery": delivery,
            "events_supported": SUPPORTED,
            "events_requested": stream.events,
            "events_delivered": stream.delivered,
            "min_verification_interval": VERIFY_EVERY,
        }
        if stream.description:
            members["description"] = stream.description
        if stream.profile is StreamProfile.SSE:
            members["format"] = stream.subject_format.value
        return members

    async def _change(self, request: Request, *, whole: bool) -> Response:
        members = _members(request)
        stream_id = _stream_id(members)
        _wanted(members, None, whole=whole)
        entropy = self.random(ENTROPY)

        def change(tx: Transaction, client: Client) -> SignalStream:
            stream = _own(tx, client, stream_id)
            self._check_supplied(stream, members)
            wish = _wanted(members, stream, whole=whole, kept=self.changes.authorization(stream))
            return self.changes.change(tx, stream, client, wish, entropy, request.at)

        return json_response(self.configuration(await self._write(request, change)))

    def _check_supplied(self, stream: SignalStream, members: Members) -> None:
        """Raise Refused for a property of the transmitter that differs from what it is."""
        properties = self.configuration(stream)
        for name in _MUST_MATCH:
            if name in members and _as_set(members[name]) != _as_set(properties[name]):
                raise _invalid(name, "what this server said, or left out")

    async def _choose(self, request: Request, *, included: bool) -> None:
        members = _members(request)
        stream_id, subject = _stream_id(members), read_subject(members.get("subject"))
        if not isinstance(members.get("verified", True), bool):
            raise _invalid("verified", "true or false")

        def choose(tx: Transaction, client: Client) -> None:
            stream = _own(tx, client, stream_id)
            rules.choose_subject(tx, stream, subject, self.issuer, request.at, included=included)

        await self._write(request, choose)

    async def _write(self, request: Request, work: Work[T]) -> T:
        authorize = await self.authorization(request, MANAGE)

        def change(tx: Transaction) -> T:
            SignalStreams.of(tx).hold_all()
            client = authorize(tx)
            return work(tx.acting(by_client(client.id)), client)

        return await self.store.write(change, done_by=USUAL_ACTOR)

    async def _read(self, request: Request, work: Work[T]) -> T:
        authorize = await self.authorization(request, READ, MANAGE)
        return await self.store.read(lambda tx: work(tx, authorize(tx)))

    async def authorization(
        self, request: Request, *scopes: str
    ) -> Callable[[Transaction], Client]:
        """Return what judges the access token in a transaction, with one of these scopes.

        A token of a user needs the permission of an administrator, as the console does.
        """
        token, now = request.bearer_token, request.at
        if not token:
            raise Refused(NO_TOKEN)
        read = await self.reader.read_by_value(token, now)

        def authorize(tx: Transaction) -> Client:
            # First: what the client may do holds until the commit.
            revision(tx.db)
            if read is not None and read.uid is not None:
                tx.users.hold(Uid(read.uid))
            token_state = self.reader.find_live(tx, token, read, now)
            if token_state is None or require_live(token_state.liveness, now) is not None:
                raise _bad_token(
                    "another" if token_state is None else token_state.liveness.ended(now)
                )
            client = tx.clients.find(token_state.read.client_id)
            if client is None:
                raise _bad_token("a token of no client")
            if not any(name in token_state.read.scope and name in client.scope for name in scopes):
                raise _insufficient(scopes[-1], str(token_state.read.scope))
            if token_state.read.uid is not None:
                uid = Uid(token_state.read.uid)
                tx.users.hold(uid)
                user = tx.users.find(uid)
                powers = permissions_of(None if user is None else user.role)
                needed = Permission.SETTINGS if MANAGE in scopes[:1] else Permission.READ
                if not powers.allow(needed):
                    raise _insufficient("an administrator", "another user")
            return client

        return authorize


class _Polls:
    """Answers polls, a bounded number of which wait for tokens at a time."""

    def __init__(self, transmitter: Transmitter) -> None:
        """Start without waiting polls."""
        self._it = transmitter
        self._waiting = 0

    async def poll(self, request: Request) -> Response:
        """Take acknowledgements, and return tokens that wait (RFC 8936 section 2)."""
        it, members, stream_id = self._it, _members(request), request.arguments["stream_id"]
        most = members.get("maxEvents", MOST_AT_ONCE)
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise _invalid("maxEvents", "a number from 0")
        at_once = members.get("returnImmediately", False)
        if not isinstance(at_once, bool):
            raise _invalid("returnImmediately", "true or false")
        acknowledged = _texts(members.get("ack", []), "ack", MOST_ACKNOWLEDGED)
        failed = _errors(members)
        authorize = await it.authorization(request, READ, MANAGE)
        if acknowledged or failed:
            await self._take(request, authorize, stream_id, acknowledged, failed)
        limit = min(most, MOST_AT_ONCE)

        def read(tx: Transaction) -> tuple[SignalStream, Client, Sequence[SignalMessage]]:
            client = authorize(tx)
            stream = _own(tx, client, stream_id)
            if stream.is_push:
                raise no_such_stream()
            return stream, client, SignalQueue.of(tx).next_of(stream, request.at, limit + 1)

        stream, client, waiting = await it.store.read(read)
        if not waiting and limit and not at_once and self._waiting < MOST_POLLS:
            stream, client, waiting = await self._wait(lambda: it.store.read(read))
        sets = {
            message.id: await it.tokens.sign(it.tokens.claims(stream, client, message), request.at)
            for message in waiting[:limit]
        }
        return json_response({"sets": sets, "moreAvailable": len(waiting) > limit})

    async def _wait(
        self, look: Callable[[], Awaitable[tuple[SignalStream, Client, Sequence[SignalMessage]]]]
    ) -> tuple[SignalStream, Client, Sequence[SignalMessage]]:
        self._waiting += 1
        try:
            poll_state = await look()
            for _ in range(POLL_SECONDS):
                if poll_state[2]:
                    break
                await asyncio.sleep(_LOOK_EVERY)
                poll_state = await look()
            return poll_state
        finally:
            self._waiting -= 1

    async def _take(
        self,
        request: Request,
        authorize: Callable[[Transaction], Client],
        stream_id: str,
        acknowledged: Sequence[str],
        failed: Mapping[str, tuple[str, str]],
    ) -> None:
        now, random = request.at, self._it.random

        def take(tx: Transaction) -> None:
            client = authorize(tx)
            stream, queue = _own(tx, client, stream_id), SignalQueue.of(tx)
            for token_id in acknowledged:
                queue.take(stream.id, token_id)
            for token_id, (error, description) in failed.items():
                message = queue.find(stream.id, token_id)
                if message is None or not queue.take(stream.id, token_id):
                    continue
                SignalStreams.of(tx).log(
                    SignalFailure(
                        ordered_id("sf", now, random),
                        stream.id,
                        token_id,
                        message.kind,
                        now,
                        1,
                        error,
                        description,
                        dropped=True,
                    )
                )
                SignalStreams.of(tx).count_dropped(stream.id, 1)
            SignalStreams.of(tx).succeeded(stream.id, now)

        await self._it.store.write(take, done_by=USUAL_ACTOR)


def _own(tx: Transaction, client: Client, stream_id: str) -> SignalStream:
    """Return a stream of this client. Raises Refused: not found."""
    fits = stream_id.isascii() and stream_id.isprintable() and len(stream_id) <= _LONGEST
    stream = SignalStreams.of(tx).find(stream_id) if fits else None
    if stream is None or stream.client_id != client.id:
        raise no_such_stream()
    return stream


def _members(request: Request) -> Members:
    members = members_of(read_json(request.body))
    if members is None:
        raise _invalid("the body", "a JSON object")
    return members


def _named(request: Request) -> str | None:
    return read_query(request.query).get("stream_id") or None


def _stream_id(members: Members) -> str:
    return _text(members, "stream_id", _LONGEST) or _required("stream_id")


def _required(name: str) -> str:
    raise _invalid(name, "there")


def _text(members: Members, name: str, longest: int) -> str | None:
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > longest:
        raise _invalid(name, f"a text of at most {longest} characters")
    return value


def _texts(value: object, name: str, most: int) -> Sequence[str]:
    listed = cast("list[object]", value) if isinstance(value, list) else None
    if listed is None or len(listed) > most:
        raise _invalid(name, f"a list of at most {most} texts")
    texts = [text for text in listed if isinstance(text, str)]
    if len(texts) < len(listed):
        raise _invalid(name, "a list of texts")
    return texts


def _uris(value: object, name: str) -> tuple[str, ...]:
    # What cannot be a URI is ignored, like every event type that is not known.
    return tuple(dict.fromkeys(text for text in _texts(value, name, _MOST_EVENTS) if _is_uri(text)))


def _is_uri(text: str) -> bool:
    return 0 < len(text) <= _LONGEST and text.isascii() and text.isprintable() and " " not in text


def _wanted(
    members: Members, before: SignalStream | None, *, whole: bool, kept: str | None = None
) -> StreamChoices:
    """Return what is chosen: with `whole` the members alone, otherwise the others are kept."""
    keeps = not whole and before is not None
    chosen = StreamChoices()
    if keeps and before is not None:
        chosen = StreamChoices(
            StreamDelivery(before.method, before.url, kept),
            before.events,
            before.description,
            before.subject_format,
        )
    delivery, events, description = chosen.delivery, chosen.events, chosen.description
    if "delivery" in members:
        delivery = _delivery(members["delivery"])
    if "events_requested" in members:
        events = _uris(members["events_requested"], "events_requested")
    if "description" in members:
        description = _text(members, "description", 10_000) or ""
        description = "".join(character for character in description if character.isprintable())[
            :_DESCRIPTION
        ]
    kind = _text(members, "format", _LONGEST)
    if kind is not None and kind not in set(SubjectFormat):
        raise _invalid("format", f"one of {', '.join(SubjectFormat)}")
    audience: tuple[str, ...] = ()
    if before is None and members.get("aud") is not None:
        aud = members["aud"]
        audience = _uris([aud] if isinstance(aud, str) else aud, "aud")
    legacy = delivery.method == LEGACY_PUSH
    return StreamChoices(
        delivery,
        events,
        description,
        # SSF 1.0 has no such member: it is left to the operator.
        SubjectFormat(kind) if kind is not None and legacy else chosen.subject_format,
        audience,
    )


def _delivery(value: object) -> StreamDelivery:
    members = members_of(value)
    if members is None:
        raise _invalid("delivery", "an object")
    method = _text(members, "method", _LONGEST) or _required("delivery.method")
    url = _text(members, "endpoint_url", _LONGEST) or ""
    header = _text(members, "authorization_header", 2_000)
    if method == POLL:
        # Its address is the server's own, which a receiver sends back when it replaces the rest.
        return StreamDelivery(POLL, "", header)
    if not url:
        raise _invalid("delivery.endpoint_url", "there")
    return StreamDelivery(method, url, header)


def _errors(body: Members) -> Mapping[str, tuple[str, str]]:
    value = members_of(body.get("setErrs", {}))
    if value is None or len(value) > MOST_ACKNOWLEDGED:
        raise _invalid("setErrs", f"an object with at most {MOST_ACKNOWLEDGED} token ids")
    errors: dict[str, tuple[str, str]] = {}
    for token_id, error in value.items():
        members = members_of(error)
        if members is None:
            raise _invalid("setErrs", "an object with an err for each token id")
        code = _text(members, "err", _LONGEST) or _required("setErrs.err")
        description = _text(members, "description", 10_000) or ""
        errors[token_id[:_LONGEST]] = _plain(code), _plain(description)
    return errors


def _plain(text: str) -> str:
    return printable(text[:_REASON])


def _as_set(value: object) -> object:
    """Return what can be compared: texts without regard to their order."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, list | tuple):
        return {str(item) for item in cast("Sequence[object]", value)}
    return value


def _status(stream: SignalStream) -> Members:
    members = {"stream_id": stream.id, "status": stream.status.value}
    return members | {"reason": stream.reason} if stream.reason else members


def _bad_token(received: str) -> Refused:
    return Refused.because(
        ErrorCode.INVALID_TOKEN,
        "the access token expired, was revoked, or is not one of ours",
        "signals.token",
        "a live access token",
        received,
    )


def _insufficient(expected: str, received: str) -> Refused:
    return Refused.because(
        ErrorCode.INSUFFICIENT_SCOPE,
        "this needs an access token with the scope that the challenge names, of the client itself"
        " or of an administrator",
        "signals.scope",
        expected,
        received,
    )


def _invalid(field: str, right: str) -> Refused:
    return Refused.because(ErrorCode.INVALID_REQUEST, f"{field} must be {right}", "signals.request")
