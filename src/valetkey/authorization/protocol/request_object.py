"""Request objects: the parameters of a request as a JWT (OpenID Connect Core 6, RFC 9101)."""

from collections.abc import Mapping
from typing import NoReturn, cast

import msgspec

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.resource import RESOURCE, joined
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.jwt import Claims
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import from_base64url
from valetkey.kernel.strict_json import read_object

TYPES = ("", "jwt", "oauth-authz-req+jwt")
"""Accepted values of `typ`; that of a client assertion is not among them."""

REQUEST = "request"
REQUEST_URI = "request_uri"

_LEEWAY = seconds(10)
_DOTS = 2
_ABOUT_ITSELF = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
"""Claims about the JWT itself (RFC 7519 section 4.1), not parameters of the request."""


def read_request_object(
    payload: bytes, client: Client, *, issuer: str, now: Instant, by_value: bool
) -> Claims:
    """Read a request object whose signature was verified, or that needs none.

    `iss` and `aud` may be absent; `exp` only if the object was fetched from a registered address,
    where the client can withdraw it: one sent by value could be replayed for ever. Present claims
    must be right. Refused with `invalid_request_object`.
    """
    try:
        claims = jwt.read_claims(
            payload,
            audience=issuer,
            issuer=client.id,
            now=now,
            leeway=_LEEWAY,
            sparse=True,
        )
    except Refused as refused:
        raise broken(refused.refusal) from None
    if by_value and "exp" not in claims:
        _refuse("it has no exp", "exp.missing")
    # An object with its client as `sub` may be a client assertion (RFC 9101 section 10.8).
    if claims.get("sub") == client.id:
        _refuse("it names the app as its subject, as only an assertion does", "assertion")
    for name in (REQUEST, REQUEST_URI):
        if name in claims:
            _refuse(f"it has a {name} inside", "nested")
    return claims


def merged(parameters: Mapping[str, str], claims: Claims) -> dict[str, str]:
    """Merge the object with the parameters sent beside it; the object wins.

    Both must agree on `client_id` and `response_type` (OpenID Connect Core section 6.1). Non-string
    values become the JSON text of the parameter, such as that of `claims` or `max_age`. Refused
    with `invalid_request_object`.
    """
    inside = {
        name: _parameter(name, value) for name, value in claims.items() if name not in _ABOUT_ITSELF
    }
    for name in ("client_id", "response_type"):
        if name in inside and name in parameters and inside[name] != parameters[name]:
            _refuse(f"it has another {name} than the request around it", f"{name}.other")
    outside = {
        name: text for name, text in parameters.items() if name not in {REQUEST, REQUEST_URI}
    }
    return outside | inside


def _parameter(name: str, value: object) -> str:
    if name == RESOURCE and isinstance(value, list):
        return joined(str(each) for each in cast("list[object]", value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def delivery_parameters(parameters: Mapping[str, str], token: str) -> dict[str, str]:
    """Return the parameters that decide how the refusal of an object is delivered.

    The object is not verified, so only values that anyone could send beside it are used:
    `response_mode`, and the others if they are not sent beside it. The redirect URI has to be
    registered in either case.
    """
    parts = token.split(".", _DOTS) if len(token) <= jwt.LONGEST else []
    payload = from_base64url(parts[1]) if len(parts) > 1 else None
    claims = (read_object(payload) if payload is not None else None) or {}
    inside = {
        name: value
        for name in ("response_mode", "response_type", "redirect_uri", "state")
        if isinstance(value := claims.get(name), str) and value
    }
    mode = {name: value for name, value in inside.items() if name == "response_mode"}
    return inside | dict(parameters) | mode


class ObjectRefused(Refused):
    """The refusal of a request object; `parameters` say how it is delivered."""

    def __init__(self, refusal: Refusal, parameters: Mapping[str, str]) -> None:
        """Store the refusal and the parameters."""
        super().__init__(refusal)
        self.parameters = parameters


def is_registered(uri: str, client: Client) -> bool:
    """Return whether the client registered this `request_uri`.

    The fragment is ignored: it is a hash of the content and changes with it.
    """
    place = without_fragment(uri)
    return any(place == without_fragment(known) for known in client.openid.request_uris)


def without_fragment(uri: str) -> str:
    """Return the address without its fragment."""
    return uri.partition("#")[0]


def broken(problem: Refusal) -> Refused:
    """Return the refusal of a request object that violates a rule of JWTs."""
    return Refused.because(
        ErrorCode.INVALID_REQUEST_OBJECT,
        "the request object is not one that this app signed for this server, or it has expired",
        f"request_object.{problem.check}",
        problem.expected,
        problem.received,
    )


def _refuse(reason: str, check: str) -> NoReturn:
    raise Refused.because(
        ErrorCode.INVALID_REQUEST_OBJECT,
        f"the request object cannot be used: {reason}",
        f"request_object.{check}",
    )
