"""Verify logout tokens for apps with sign-in (OIDC Back-Channel Logout 1.0 section 2.6)."""

import ssl
from dataclasses import dataclass
from typing import cast

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.sdk.fetch import Fetcher, HttpClient
from valetkey.sdk.upstream.discovery import Issuer
from valetkey.sdk.upstream.key_source import KeySource

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
        known = token_id in self._seen
        # The oldest first: a repetition arrives within a day, and is harmless later.
        while len(self._seen) >= _MOST:
            del self._seen[next(iter(self._seen))]
        self._seen[token_id] = now
        return known


_NO_KEYS = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the issuer's keys cannot be fetched at the moment",
    "logout_token.keys",
    retry_after=2,
)


def _converted(refused: Refused) -> Refused:
    found = refused.refusal
    return _refused(found.check.rpartition(".")[2], found.expected, found.received)


def _refused(check: str, expected: str, received: str = "") -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        "this is not a logout token of the issuer for this app",
        f"logout_token.{check}",
        expected,
        received,
    )
