"""Token introspection at the issuer (RFC 7662), with responses cached for seconds."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from http import HTTPStatus
from typing import cast

import msgspec

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.access_token import read_bindings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import AHEAD, Instant, Lifetime, later, seconds
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import same_identifiers
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Answer, Credential, HttpClient, Unreachable
from valetkey.sdk.upstream.discovery import KeySource

MEDIA_TYPE = "application/token-introspection+jwt"
"""The media type of requested and accepted responses."""

FRESH = seconds(60)
"""Maximum age of a response: an older one may be a replay."""

_TYP = MEDIA_TYPE.removeprefix("application/")
_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}
REMEMBERED = seconds(3)
"""How long a response is cached: well within the 5 seconds in which revocations take effect."""

_REST = seconds(1)  # after a failed request, before the issuer is called again
_AT_ONCE = 512  # requests in progress; more would only queue

UNANSWERED = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the authorization server cannot be reached to introspect this token",
    "introspection.unreachable",
    retry_after=2,
)
"""Undecided: the token may be valid."""


class UnknownKey(Exception):
    """The response is signed with an unknown key; fetching newer keys may help."""


def read_signed(
    body: bytes, keys: KeySet, *, issuer: str, audience: str, now: Instant
) -> Mapping[str, object] | None:
    """Return `issuer`'s response to `audience` about a token; None if it is invalid.

    Raises UnknownKey.
    """
    try:
        parts = jwt.parse(body.decode("ascii"), (_TYP,))
    except (Refused, UnicodeDecodeError):
        return None
    algorithm = _ALGORITHMS.get(parts.header.alg)
    key = keys.find(parts.header.kid)
    if key is None:
        raise UnknownKey
    if algorithm is None or algorithm not in key.algorithms:
        return None
    if not key.verifies(algorithm, parts.signature, parts.signed):
        return None
    claims = read_object(parts.payload) or {}
    at, named = claims.get("iat"), claims.get("aud")
    listed = cast("list[object]", named) if isinstance(named, list) else [named]
    members = claims.get("token_introspection")
    if (
        claims.get("iss") != issuer
        or audience not in listed
        or type(at) is not int
        or not now - FRESH <= at <= now + AHEAD
        or not isinstance(members, dict)
    ):
        return None
    return cast("dict[str, object]", members)


@dataclass(frozen=True, slots=True)
class _IntrospectionResponse:
    """The members of an introspection response that the SDK uses."""

    active: bool
    sub: str = ""
    client_id: str = ""
    scope: str = ""
    exp: int = 0
    iat: int = 0
    jti: str = ""
    grant_id: str | None = None
    aud: str | tuple[str, ...] = ()
    iss: str = ""
    cnf: dict[str, object] | None = None


_OWN = frozenset(
    (
        *(field.name for field in fields(_IntrospectionResponse)),
        "nbf",
        "token_type",
        "username",
        "auth_time",
        "act",
    )
)
_Response = tuple[_IntrospectionResponse, Mapping[str, object]]
_MEMBERS = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class _Remembered:
    answer: Caller | Refusal
    until: Instant


class Introspection:
    """Introspect tokens, one request for all concurrent callers, cached for 3 seconds."""

    def __init__(
        self,
        endpoint: str,
        fetch: HttpClient,
        credential: Credential,
        *,
        issuer: str,
        audience: str,
        nameless: bool = False,
        keys: KeySource | None = None,
        remembered: Lifetime = REMEMBERED,
        capacity: int = 10_000,
    ) -> None:
        """Introspect at `endpoint`; cache at most `capacity` responses, evicting the oldest.

        `nameless` says that this issuer omits `sub` if a client acts on its own behalf. With its
        `keys`, responses must be signed with one of them (RFC 9701).
        """
        self._endpoint = endpoint
        self._fetch = fetch
        self._credential = credential
        self._issuer = issuer
        self._audience = audience
        self._audiences = same_identifiers(audience)
        self._nameless = nameless
        self._keys = keys
        self._remembered = remembered
        self._capacity = capacity
        self._answers: dict[bytes, _Remembered] = {}
        self._requests: dict[bytes, asyncio.Task[Caller | Refusal]] = {}
        self._rest_until = Instant(0)

    async def introspect(self, token: str, now: Instant) -> Caller | Refusal:
        """Return the caller or a refusal; `UNANSWERED` if the issuer is unreachable."""
        print_ = sha256(token.encode("utf-8", "surrogatepass")).digest()
        cached_answer = self._answers.get(print_)
        # After the clock was set back, a response must not be cached for longer.
        if cached_answer is not None and now < cached_answer.until <= later(now, self._remembered):
            return cached_answer.answer
        if now < self._rest_until <= later(now, _REST):
            return UNANSWERED
        request = self._requests.get(print_)
        if request is None:
            if len(self._requests) >= _AT_ONCE:
                return UNANSWERED
            request = asyncio.get_running_loop().create_task(self._request(print_, token, now))
            self._requests[print_] = request
            request.add_done_callback(self._forget(print_))
        # Shielded: cancelling one caller must not cancel the shared request.
        return await asyncio.shield(request)

    def _forget(self, print_: bytes) -> Callable[[asyncio.Task[Caller | Refusal]], None]:
        def discard(_: asyncio.Task[Caller | Refusal]) -> None:
            self._requests.pop(print_, None)

        return discard

    async def _request(self, print_: bytes, token: str, now: Instant) -> Caller | Refusal:
        fields = {"token": token, "token_type_hint": "access_token"}
        try:
            if self._keys is None:
                answer = await self._fetch.post_form(self._endpoint, fields, self._credential)
                response = _read(answer)
            else:
                answer = await self._fetch.post_form(
                    self._endpoint, fields, self._credential, accept=MEDIA_TYPE
                )
                response = await self._read_signed(answer, self._keys, now)
        except Unreachable:
            self._rest_until = later(now, _REST)
            return UNANSWERED
        if response is None:
            self._rest_until = later(now, _REST)
            return UNANSWERED
        verdict = self._verdict(*response, now)
        self._answers.pop(print_, None)
        while len(self._answers) >= self._capacity:
            del self._answers[next(iter(self._answers))]
        until = later(now, self._remembered)
        if isinstance(verdict, Caller):
            # No response is cached beyond the token's expiry.
            until = min(until, verdict.expires_at)
        self._answers[print_] = _Remembered(verdict, until)
        return verdict

    async def _read_signed(
        self, answer: Answer, source: KeySource, now: Instant
    ) -> _Response | None:
        if answer.status != HTTPStatus.OK:
            return None
        for _ in range(2):
            if source.keys is None:
                await source.fetch_missing(now)
            keys = source.keys
            if keys is None:
                return None
            try:
                response = read_signed(
                    answer.body,
                    keys,
                    issuer=self._issuer,
                    audience=self._credential.client_id,
                    now=now,
                )
                return (
                    None
                    if response is None
                    else (msgspec.convert(response, type=_IntrospectionResponse), response)
                )
            except UnknownKey:
                await source.fetch_missing(now)
            except msgspec.ValidationError:
                return None
        return None

    def _verdict(
        self, response: _IntrospectionResponse, members: Mapping[str, object], now: Instant
    ) -> Caller | Refusal:
        if not response.active or response.exp <= now:
            return _refused("introspection.inactive", "a live token", "not active")
        if response.iss and response.iss != self._issuer:
            return _refused("introspection.issuer", self._issuer, "another issuer")
        audience = (response.aud,) if isinstance(response.aud, str) else response.aud
        if self._audiences.isdisjoint(audience):
            return _refused("introspection.audience", self._audience, "another audience")
        bindings = () if response.cnf is None else read_bindings(response.cnf)
        if bindings is None:
            return _refused("introspection.cnf", "an object that names a key", "another object")
        subject = response.sub or (response.client_id if self._nameless else "")
        if not response.client_id or not subject:
            return Refusal(
                ErrorCode.INSUFFICIENT_SCOPE,
                "this access token has no subject",
                "introspection.subject",
            )
        try:
            scope = Scope.parse(response.scope)
        except Refused:
            return _refused("introspection.scope", "scope names", "other text")
        return Caller(
            subject=subject,
            client_id=response.client_id,
            scope=scope,
            token_id=response.jti,
            grant_id=response.grant_id,
            issued_at=Instant(response.iat),
            expires_at=Instant(response.exp),
            bindings=bindings,
            claims={name: members[name] for name in members if name not in _OWN},
        )


def _read(answer: Answer) -> _Response | None:
    if answer.status != HTTPStatus.OK:
        return None
    try:
        members = _MEMBERS.decode(answer.body)
        return msgspec.convert(members, type=_IntrospectionResponse), members
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _refused(check: str, expected: str, received: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TOKEN,
        "the access token expired, was revoked, or is not for this API",
        check,
        expected,
        received,
    )
