"""Verify an access token: return its Caller or the reason of the refusal."""

from collections.abc import Collection
from hashlib import sha256

from valetkey.kernel.jose import access_token
from valetkey.kernel.jose.access_token import AccessToken, Binding
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Prefix, well_formed
from valetkey.sdk.caller import Caller
from valetkey.sdk.upstream.discovery import Issuer
from valetkey.sdk.upstream.introspection import Introspection
from valetkey.sdk.upstream.key_source import KeySource
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
    ) -> None:
        """Accept tokens that `issuer` made for `audience`, unless `revocations` cover them."""
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
        known = self._verified.find(token, keys, now)
        if known is None or known.bindings:
            return None
        if self._revocations is not None and self._revocations.covers(known):
            return None
        return known

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
        known = self._verified.find(token, keys, now)
        if known is not None:
            return known
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
