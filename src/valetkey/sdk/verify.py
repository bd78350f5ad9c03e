"""Verify what the issuer sends: access tokens, logout tokens and webhooks."""

import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

import msgspec

from valetkey.kernel.jose import access_token, jwt
from valetkey.kernel.jose.access_token import AccessToken, Binding
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Prefix, same, well_formed
from valetkey.kernel.webhook import webhook_signature
from valetkey.sdk.caller import Caller
from valetkey.sdk.fetch import Fetcher, HttpClient
from valetkey.sdk.upstream.discovery import Issuer, KeySource
from valetkey.sdk.upstream.introspection import Introspection
from valetkey.sdk.upstream.revocations import Revocations

_FETCHES = 2  # the first may have been under way before the key existed
_REFERENCE = f"{Prefix.ACCESS_TOKEN}_"
_DOTS = 2

NO_KEYS = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the authorization server's keys cannot be fetched at the moment",
    "keys.unreachable",
    retry_after=2,
)
"""Undecided: the signature may be valid."""

UNHEARD = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the authorization server does not say at the moment which tokens were revoked",
    "revocations.unheard",
    retry_after=2,
)
"""Undecided: the token may have been revoked since the feed last answered."""

REVOKED = Refusal(
    ErrorCode.INVALID_TOKEN,
    "the access token was revoked",
    "token.revoked",
    "a token that was not revoked",
    "the token, its grant or its client was ended",
)

BOUND = Refusal(
    ErrorCode.INVALID_TOKEN,
    "the access token is bound to a key; its sender must prove possession of that key",
    "token.bound",
    "a bearer token, or a proof",
    "a token bound to a key",
)

_GARBLED = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this is not an access token of the authorization server",
    "token.garbled",
    "a token as it was issued",
    "a token whose checksum is wrong",
)
_BY_VALUE_ONLY = Refusal(
    ErrorCode.INVALID_TOKEN,
    "tokens by reference are not taken here",
    "token.reference",
    "a JWT",
    "a token by reference",
)


class VerifiedTokens:
    """A bounded cache from a token's hash to its caller, valid while the keys stay.

    It covers only the signature and the lifetime; revocation is checked on every use, elsewhere.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        """Hold at most `capacity` callers, evicting the oldest."""
        self._capacity = capacity
        self._callers: dict[bytes, Caller] = {}
        self._keys: KeySet | None = None

    def find(self, token: str, keys: KeySet, now: Instant) -> Caller | None:
        """Return the token's caller if `keys` are still those that verified it."""
        # A key removed from the set invalidates the tokens it signed.
        if keys is not self._keys:
            self._callers.clear()
            self._keys = keys
            return None
        print_ = _digest(token)
        caller = self._callers.get(print_)
        if caller is None or caller.is_live(now):
            return caller
        del self._callers[print_]
        return None

    def add(self, token: str, keys: KeySet, caller: Caller) -> None:
        """Cache the result that `keys` verified this token."""
        if keys is not self._keys:
            self._callers.clear()
            self._keys = keys
        while len(self._callers) >= self._capacity:
            del self._callers[next(iter(self._callers))]
        self._callers[_digest(token)] = caller

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return len(self._callers)


def _digest(token: str) -> bytes:
    # The hash, so that a memory dump contains no token.
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


class Verifier:
    """Verify one issuer's tokens, by value (JWT, RFC 9068) and by reference (RFC 7662)."""

    def __init__(
        self,
        *,
        issuer: Issuer,
        audience: str,
        keys: KeySource,
        introspection: Introspection | None = None,
        revocations: Revocations | None = None,
        max_age: Lifetime | None = None,
    ) -> None:
        """Accept tokens that `issuer` made for `audience`, unless `revocations` cover them.

        With `max_age`, a JWT is undecided if `revocations` were not heard for so long.
        """
        self._max_age = max_age
        self._issuer = issuer
        self._audience = audience
        self._source = keys
        self._introspection = introspection
        self._revocations = revocations
        self._verified = VerifiedTokens()

    async def verify(
        self, token: str, now: Instant, proven: Collection[Binding] = ()
    ) -> Caller | Refusal:
        """Return the token's caller; `temporarily_unavailable` if only the issuer can decide.

        `proven` are the keys that the sender has shown to hold; a token that is bound to any other
        key is `BOUND`.
        """
        if self._is_reference(token):
            verdict = await self._by_reference(token, now)
        else:
            verdict = await self._by_value(token, now)
            if not self._knows_revocations(now) and not isinstance(verdict, Refusal):
                return UNHEARD
        if isinstance(verdict, Refusal):
            return verdict
        # Checked for cached tokens, too: only the result about the signature stays valid.
        if self._revocations is not None and self._revocations.covers(verdict):
            return REVOKED
        if not all(binding in proven for binding in verdict.bindings):
            return BOUND
        return verdict

    def recall(self, token: str, now: Instant) -> Caller | None:
        """Return the caller of a JWT verified before, if it is still valid; otherwise use `verify`.

        Only the signature check is skipped: lifetime, revocation and keys are checked again.
        """
        keys = self._source.keys
        if keys is None:
            return None
        caller = self._verified.find(token, keys, now)
        if caller is None or caller.bindings or not self._knows_revocations(now):
            return None
        if self._revocations is not None and self._revocations.covers(caller):
            return None
        return caller

    def _knows_revocations(self, now: Instant) -> bool:
        if self._revocations is None or self._max_age is None:
            return True
        return self._revocations.is_known(now, self._max_age)

    def _is_reference(self, token: str) -> bool:
        if self._issuer.checksummed:
            return token.startswith(_REFERENCE)
        # A token in JWT form is never sent to an issuer as a reference.
        return self._introspection is not None and token.count(".") != _DOTS

    async def _by_reference(self, token: str, now: Instant) -> Caller | Refusal:
        # The checksum saves requests to the issuer for malformed tokens.
        if self._issuer.checksummed and not well_formed(Prefix.ACCESS_TOKEN, token):
            return _GARBLED
        if self._introspection is None:
            return _BY_VALUE_ONLY
        return await self._introspection.introspect(token, now)

    async def _by_value(self, token: str, now: Instant) -> Caller | Refusal:
        keys = self._source.keys
        if keys is None:
            await self._source.fetch_missing(now)
            keys = self._source.keys
            if keys is None:
                return NO_KEYS
        caller = self._verified.find(token, keys, now)
        if caller is not None:
            return caller
        verdict = self._check(token, keys, now)
        for _ in range(_FETCHES):
            if not _lacks_key(verdict):
                return verdict
            await self._source.fetch_missing(now)
            verdict = self._check(token, self._source.keys or keys, now)
        if _lacks_key(verdict) and not self._source.is_sure():
            return NO_KEYS
        return verdict

    def _check(self, token: str, keys: KeySet, now: Instant) -> Caller | Refusal:
        try:
            verified = access_token.verify(
                token,
                keys,
                issuer=self._issuer.url,
                audience=self._audience,
                now=now,
                algorithms=self._issuer.algorithms,
            )
        except Refused as refused:
            return refused.refusal
        caller = _caller(verified)
        self._verified.add(token, keys, caller)
        return caller


def _lacks_key(verdict: Caller | Refusal) -> bool:
    return isinstance(verdict, Refusal) and verdict.check == access_token.UNKNOWN_KEY


def _caller(token: AccessToken) -> Caller:
    return Caller(
        subject=token.subject,
        client_id=token.client_id,
        scope=token.scope,
        token_id=token.token_id,
        grant_id=token.grant_id,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        bindings=token.bindings,
        claims=token.claims,
    )


EVENT = "http://schemas.openid.net/event/backchannel-logout"
"""The member of `events` that makes a JWT a logout token."""

_TYPES = ("logout+jwt",)
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class LoggedOut:
    """A sign-out: end the app's sessions of `session_id`, or, if it is "", of `subject`.

    `again` marks a repeated token: answer 200, there is nothing left to do.
    """

    subject: str
    session_id: str
    again: bool = False


class LogoutTokens:
    """Verify what the issuer posts to the app's `backchannel_logout_uri` as `logout_token`.

    Create one for each process, inside the event loop that will use it, and `close` it at the end.
    """

    def __init__(
        self,
        issuer: Issuer,
        *,
        client_id: str,
        tls: ssl.SSLContext | None = None,
        http: HttpClient | None = None,
    ) -> None:
        """Trust `issuer`'s logout tokens for `client_id`; `http` replaces the network."""
        self._issuer = issuer
        self._client_id = client_id
        self._http = Fetcher(tls) if http is None else http
        self._source = KeySource(issuer.keys, self._http)
        self._seen: dict[str, Instant] = {}

    async def read(self, token: str, now: Instant) -> LoggedOut:
        """Verify the token and return the sign-out.

        Refused with `invalid_request` (answer 400, and sign no user out) for anything but a live
        logout token of this issuer for this app, and with `temporarily_unavailable` (answer 503,
        and the issuer retries) if its keys cannot be fetched.
        """
        claims = await self._verified(token, now)
        token_id, subject = claims.get("jti"), claims.get("sub", "")
        session_id, events = claims.get("sid", ""), claims.get("events")
        if not isinstance(subject, str) or not isinstance(session_id, str):
            raise _refused("sub", "strings in sub and sid")
        if not (subject or session_id):
            raise _refused("sub", "sub or sid")
        if not isinstance(token_id, str) or not token_id:
            raise _refused("jti", "a jti")
        listed = cast("dict[str, object]", events) if isinstance(events, dict) else {}
        if not isinstance(listed.get(EVENT), dict):
            raise _refused("events", EVENT)
        if "nonce" in claims:
            raise _refused("nonce", "no nonce, which would make it an ID token")
        return LoggedOut(subject, session_id, again=self._is_known(token_id, now))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _verified(self, token: str, now: Instant) -> jwt.Claims:
        keys = self._source.keys
        if keys is None:
            await self._source.fetch_missing(now)
            keys = self._source.keys
            if keys is None:
                raise Refused(_NO_KEYS)
        try:
            return self._check(token, keys, now)
        except Refused as refused:
            if refused.refusal.check != jwt.UNKNOWN_KEY:
                raise _converted(refused) from None
        await self._source.fetch_missing(now)
        newer = self._source.keys or keys
        try:
            return self._check(token, newer, now)
        except Refused as refused:
            raise _converted(refused) from None

    def _check(self, token: str, keys: KeySet, now: Instant) -> jwt.Claims:
        return jwt.verify(
            token,
            keys,
            typ=_TYPES,
            # As the app registered for its ID tokens: the algorithms of access tokens do not matter
            # here.
            algorithms=tuple(Algorithm),
            issuer=self._issuer.url,
            audience=self._client_id,
            now=now,
        )

    def _is_known(self, token_id: str, now: Instant) -> bool:
        repeated = token_id in self._seen
        # The oldest first: a repetition arrives within a day, and is harmless later.
        while len(self._seen) >= _MOST:
            del self._seen[next(iter(self._seen))]
        self._seen[token_id] = now
        return repeated


_NO_KEYS = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the issuer's keys cannot be fetched at the moment",
    "logout_token.keys",
    retry_after=2,
)


def _converted(refused: Refused) -> Refused:
    refusal = refused.refusal
    return _refused(refusal.check.rpartition(".")[2], refusal.expected, refusal.received)


def _refused(check: str, expected: str, received: str = "") -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        "this is not a logout token of the issuer for this app",
        f"logout_token.{check}",
        expected,
        received,
    )


TOLERANCE = 300
"""Maximum difference between the clocks of sender and receiver, in seconds."""

_MOST_SIGNATURES = 16


class InvalidWebhook(ValueError):
    """A request is not an authentic webhook; answer it with 400 and do nothing else."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified message. Ignore one whose `id` was handled before: delivery is at least once."""

    id: str
    type: str
    timestamp: str
    """When the event happened, in RFC 3339."""
    data: Mapping[str, object]


class _Body(msgspec.Struct, frozen=True):
    type: str
    timestamp: str
    data: dict[str, object]


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    *secrets: str,
    now: float,
    tolerance: int = TOLERANCE,
) -> Webhook:
    """Return the message of an authentic webhook request.

    `headers` are looked up in any case, `body` are the bytes as received, before any parsing, and
    `now` is the Unix time in seconds. While a secret is rotated, pass both. Signatures are
    compared in constant time. Raises InvalidWebhook for a missing or malformed header, a
    timestamp further than `tolerance` seconds away, and an invalid signature.

    >>> secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwSw"
    >>> headers = {
    ...     "webhook-id": "ev_1",
    ...     "webhook-timestamp": "1767322800",
    ...     "webhook-signature": "v1,oRDwQHVVfm4YHJ5f+Damk0AGY9Ah5IgkVa5IIPU7weI=",
    ... }
    >>> body = b'{"type":"user.disabled","timestamp":"2026-01-02T03:00:00Z","data":{"uid":17}}'
    >>> message = verify_webhook(headers, body, secret, now=1767322801)
    >>> message.type, message.data
    ('user.disabled', {'uid': 17})
    """
    fields = {name.lower(): value for name, value in headers.items()}
    message_id = fields.get("webhook-id", "")
    timestamp = fields.get("webhook-timestamp", "")
    signatures = fields.get("webhook-signature", "").split()
    if not message_id or not signatures or len(signatures) > _MOST_SIGNATURES:
        raise InvalidWebhook("webhook-id or webhook-signature is missing or malformed")
    # int() alone would accept signs, spaces, underscores and digits of other scripts.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= len("9" * 12)):
        raise InvalidWebhook("webhook-timestamp is missing or malformed")
    if abs(now - int(timestamp)) > tolerance:
        raise InvalidWebhook("webhook-timestamp is too far from this clock")
    if not _is_signed(message_id, int(timestamp), body, signatures, secrets):
        raise InvalidWebhook("webhook-signature is invalid")
    try:
        read = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidWebhook("the body is not a webhook") from error
    return Webhook(message_id, read.type, read.timestamp, read.data)


def _is_signed(
    message_id: str,
    timestamp: int,
    body: bytes,
    signatures: Sequence[str],
    secrets: Sequence[str],
) -> bool:
    is_signed = False
    for secret in secrets:
        expected = webhook_signature(secret, message_id, timestamp, body)
        for signature in signatures:
            is_signed |= same(signature, expected)
    return is_signed
