"""Get tokens: a method for each grant (RFC 6749), and sign-in of a user (RFC 7636, 8252, 9207)."""

import asyncio
import ssl
import sys
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import Secret, same, to_base64url
from valetkey.sdk.client.token_file import (
    DeviceCodes,
    Rejected,
    Tokens,
    read_assertion,
    read_device_codes,
    read_error,
    read_tokens,
)
from valetkey.sdk.fetch import Answer, Credential, Fetcher, Unreachable
from valetkey.sdk.upstream.discovery import Issuer

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


PATH = "/callback"
"""Register `http://127.0.0.1/callback`: any port of a loopback address matches (section 7.3)."""

_READ_WITHIN = 10  # seconds: an idle browser connection must not block another
_MOST = 20  # parameters of a response
_PAGE = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>Done</title>"
    b"<p>You can close this window and go back to the program."
)
_HEADERS = (
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
)

Judge = Callable[[Mapping[str, str]], bool]
"""Returns whether these parameters are the expected response."""


class Loopback:
    """A listener on 127.0.0.1 that accepts one response and ignores all other requests."""

    def __init__(self, judge: Judge, port: int = 0) -> None:
        """Wait for a response that `judge` accepts, on this port or on any free one."""
        answers: Queue[Mapping[str, str]] = Queue()

        class Listener(BaseHTTPRequestHandler):
            timeout = _READ_WITHIN

            def do_GET(self) -> None:
                parameters = _parameters(self.path)
                if parameters is None or not judge(parameters):
                    self.send_error(404)
                    return
                self.send_response(200)
                for name, value in _HEADERS:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(_PAGE)))
                self.end_headers()
                self.wfile.write(_PAGE)
                answers.put(parameters)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: the address contains the code."""

        self._answers = answers
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Listener)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.redirect_uri = f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def wait(self, seconds: float) -> Mapping[str, str]:
        """Return the parameters of the response. Raises TimeoutError."""
        try:
            return self._answers.get(timeout=seconds)
        except Empty:
            raise TimeoutError(f"no response arrived within {seconds:.0f} seconds") from None

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _parameters(target: str) -> Mapping[str, str] | None:
    """Return the query of a request to our path; None for another path or a repeated parameter."""
    parts = urlsplit(target)
    if parts.path != PATH:
        return None
    try:
        pairs = parse_qsl(parts.query, errors="strict", max_num_fields=_MOST)
    except ValueError:
        return None
    parameters = dict(pairs)
    return parameters if len(parameters) == len(pairs) else None


WAIT = 300.0
"""Seconds that a user has to sign in."""

Show = Callable[[str], object]
"""Shows the address to the user."""


def open_browser(url: str) -> None:
    """Open the user's browser; without one, write the address to standard error."""
    if not webbrowser.open(url):
        sys.stderr.write(f"Open this address in a browser of this machine:\n{url}\n")
        sys.stderr.flush()


def sign_in(
    issuer: Issuer,
    endpoint: TokenEndpoint,
    runtime: Runtime,
    *,
    scope: str,
    show: Show,
    wait: float = WAIT,
    port: int = 0,
) -> Tokens:
    """Send the user to the authorization endpoint and return the tokens.

    Raises Rejected if the user or server refuses, TimeoutError after `wait` seconds, and
    Unreachable.
    """
    state = to_base64url(runtime.random(32))
    verifier = to_base64url(runtime.random(32))

    def is_ours(answer: Mapping[str, str]) -> bool:
        return same(answer.get("state", ""), state)

    with Loopback(is_ours, port) as loopback:
        parameters = {
            "response_type": "code",
            "client_id": endpoint.client_id,
            "redirect_uri": loopback.redirect_uri,
            "state": state,
            "code_challenge": to_base64url(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        if scope:
            parameters["scope"] = scope
        if endpoint.resource:
            parameters["resource"] = endpoint.resource
        show(f"{issuer.authorization}?{urlencode(parameters)}")
        answer = loopback.wait(wait)
        redirect_uri = loopback.redirect_uri
    code = _code(answer, issuer)
    now = runtime.now()
    return endpoint.with_code(code, redirect_uri, verifier, scope=scope, now=now)


def _code(answer: Mapping[str, str], issuer: Issuer) -> str:
    # RFC 9207 section 2.4: another server's response must not bring its code to this one.
    if answer.get("iss", "" if issuer.names_itself else issuer.url) != issuer.url:
        raise Rejected("invalid_response", "the answer is of another authorization server")
    if "error" in answer:
        raise Rejected(answer["error"], answer.get("error_description", ""))
    if not answer.get("code"):
        raise Rejected("invalid_response", "the answer has no code")
    return answer["code"]
