"""Sign a user in from a program: code grant with PKCE (RFC 7636, 8252, 9207)."""

import sys
import webbrowser
from collections.abc import Callable, Mapping
from hashlib import sha256
from urllib.parse import urlencode

from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import same, to_base64url
from valetkey.sdk.client.loopback import Loopback
from valetkey.sdk.client.token_endpoint import TokenEndpoint
from valetkey.sdk.client.tokens import Rejected, Tokens
from valetkey.sdk.upstream.issuer import Issuer

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
        asked = {
            "response_type": "code",
            "client_id": endpoint.client_id,
            "redirect_uri": loopback.redirect_uri,
            "state": state,
            "code_challenge": to_base64url(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        if scope:
            asked["scope"] = scope
        if endpoint.resource:
            asked["resource"] = endpoint.resource
        show(f"{issuer.authorization}?{urlencode(asked)}")
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
