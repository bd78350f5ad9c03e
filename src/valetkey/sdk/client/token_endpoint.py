"""Call a token endpoint: code, refresh token or client credentials grant (RFC 6749)."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Secret
from valetkey.sdk.client.tokens import (
    DeviceCodes,
    Tokens,
    read_device_codes,
    read_error,
    read_tokens,
)
from valetkey.sdk.fetch import Answer, Credential, Fetcher, Unreachable

_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """One token endpoint and the client that calls it; without a secret the client is public.

    Every method blocks until the response arrives, for 5 seconds at most. It raises Rejected for an
    error response and Unreachable without a response.
    """

    url: str
    client_id: str
    secret: Secret | None = None
    resource: str = ""
    tls: ssl.SSLContext | None = None

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
        """Get a token with the client credentials grant (section 4.4)."""
        fields = {"grant_type": "client_credentials"}
        if scope:
            fields["scope"] = scope
        return self._ask(fields, now, scope)

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

    def device_codes(self, url: str, *, scope: str) -> DeviceCodes:
        """Request codes for a sign-in on another device (RFC 8628 section 3.1)."""
        answer = asyncio.run(self._send({"scope": scope} if scope else {}, url))
        return read_device_codes(_checked(answer).body)

    def _ask(
        self, fields: Mapping[str, str], now: Instant, scope: str, old: Secret | None = None
    ) -> Tokens:
        answer = _checked(asyncio.run(self._send(fields, self.url)))
        return read_tokens(answer.body, now, scope=scope, old=old)

    async def _send(self, fields: Mapping[str, str], url: str) -> Answer:
        sent = dict(fields)
        if self.resource:
            sent["resource"] = self.resource
        credential = None
        if self.secret is None:
            sent["client_id"] = self.client_id
        else:
            credential = Credential(self.client_id, self.secret)
        async with Fetcher(self.tls) as fetch:
            return await fetch.post_form(url, sent, credential)


def _checked(answer: Answer) -> Answer:
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unreachable(f"the authorization server answered {answer.status}")
    if answer.status != HTTPStatus.OK:
        raise read_error(answer.body)
    return answer
