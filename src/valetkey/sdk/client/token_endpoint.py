"""Call a token endpoint: one method for each grant, and the client's own proof (RFC 6749)."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Secret
from valetkey.sdk.client.token_file import (
    DeviceCodes,
    Tokens,
    read_assertion,
    read_device_codes,
    read_error,
    read_tokens,
)
from valetkey.sdk.fetch import Answer, Credential, Fetcher, Unreachable

_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TYPES = "urn:ietf:params:oauth:token-type:"
_ACCESS_TOKEN = f"{_TYPES}access_token"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LIFE = 60  # seconds that an assertion of the client is valid


@dataclass(frozen=True, slots=True)
class Signer:
    """A client's private key: signs what authenticates it to `issuer` (RFC 7523 section 3)."""

    issuer: str
    client_id: str
    key: SigningKey
    random: Callable[[int], bytes]

    def assertion(self, now: Instant) -> str:
        """Return a new assertion; the issuer accepts each once, for a minute."""
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.issuer,
            "jti": self.random(16).hex(),
            "iat": now,
            "exp": now + _LIFE,
        }
        return jwt.sign(claims, self.key, typ="JWT")


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """One token endpoint and the client that calls it: with a secret, with a key, or public.

    Every method blocks until the response arrives, for 5 seconds at most. It raises Rejected for an
    error response and Unreachable without a response.
    """

    url: str
    client_id: str
    secret: Secret | None = None
    resource: str = ""
    tls: ssl.SSLContext | None = None
    signer: Signer | None = None

    def with_code(
        self, code: str, redirect_uri: str, verifier: str, *, scope: str, now: Instant
    ) -> Tokens:
        """Exchange a code for tokens (section 4.1.3; RFC 7636 section 4.5)."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        return self._ask(fields, now, scope)

    def with_refresh_token(self, token: Secret, *, scope: str, now: Instant) -> Tokens:
        """Refresh the tokens; the old refresh token stays if no new one is issued (section 6)."""
        fields = {"grant_type": "refresh_token", "refresh_token": token.reveal()}
        return self._ask(fields, now, scope, token)

    def for_itself(self, *, scope: str, now: Instant) -> Tokens:
        """Get a token by client credentials, or with a key by an assertion (RFC 7523 2.1)."""
        fields = {"grant_type": "client_credentials"}
        if self.signer is not None:
            fields = {"grant_type": _JWT_BEARER, "assertion": self.signer.assertion(now)}
        if scope:
            fields["scope"] = scope
        return self._ask(fields, now, scope, proves=self.signer is None)

    def with_device_code(self, code: Secret, *, scope: str, now: Instant) -> Tokens:
        """Poll for the user's decision (RFC 8628 section 3.4)."""
        return self._ask({"grant_type": _DEVICE, "device_code": code.reveal()}, now, scope)

    def exchange(self, token: Secret, actor: Secret | None, *, scope: str, now: Instant) -> Tokens:
        """Exchange a user's access token; with `actor` the new one says who acts (RFC 8693)."""
        fields = {
            "grant_type": _EXCHANGE,
            "subject_token": token.reveal(),
            "subject_token_type": _ACCESS_TOKEN,
        }
        if actor is not None:
            fields |= {"actor_token": actor.reveal(), "actor_token_type": _ACCESS_TOKEN}
        if scope:
            fields["scope"] = scope
        return self._ask(fields, now, scope)

    def identity_assertion(
        self, token: Secret, kind: str, *, audience: str, scope: str, now: Instant
    ) -> Secret:
        """Exchange an ID token or a refresh token, its `kind`, for an assertion (ID-JAG)."""
        fields = {
            "grant_type": _EXCHANGE,
            "requested_token_type": f"{_TYPES}id-jag",
            "subject_token": token.reveal(),
            "subject_token_type": _TYPES + kind,
            "audience": audience,
        }
        if scope:
            fields["scope"] = scope
        return read_assertion(_checked(asyncio.run(self._send(fields, self.url, now))).body)

    def with_assertion(self, assertion: Secret, *, scope: str, now: Instant) -> Tokens:
        """Redeem another server's assertion about a user (RFC 7523 section 2.1)."""
        fields = {"grant_type": _JWT_BEARER, "assertion": assertion.reveal()}
        if scope:
            fields["scope"] = scope
        return self._ask(fields, now, scope)

    def device_codes(self, url: str, *, scope: str, now: Instant) -> DeviceCodes:
        """Request codes for a sign-in on another device (RFC 8628 section 3.1)."""
        answer = asyncio.run(self._send({"scope": scope} if scope else {}, url, now))
        return read_device_codes(_checked(answer).body)

    def _ask(
        self,
        fields: Mapping[str, str],
        now: Instant,
        scope: str,
        old: Secret | None = None,
        *,
        proves: bool = True,
    ) -> Tokens:
        answer = _checked(asyncio.run(self._send(fields, self.url, now, proves=proves)))
        return read_tokens(answer.body, now, scope=scope, old=old)

    async def _send(
        self, fields: Mapping[str, str], url: str, now: Instant, *, proves: bool = True
    ) -> Answer:
        sent = dict(fields)
        if self.resource:
            sent["resource"] = self.resource
        credential = None
        if self.secret is None:
            sent["client_id"] = self.client_id
        # An assertion of its own is proof already, and with two of them the request is refused.
        if self.signer is not None and proves:
            sent["client_assertion_type"] = _CLIENT_ASSERTION
            sent["client_assertion"] = self.signer.assertion(now)
        if self.secret is not None:
            credential = Credential(self.client_id, self.secret)
        async with Fetcher(self.tls) as fetch:
            return await fetch.post_form(url, sent, credential)


def _checked(answer: Answer) -> Answer:
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unreachable(f"the authorization server answered {answer.status}")
    if answer.status != HTTPStatus.OK:
        raise read_error(answer.body)
    return answer
