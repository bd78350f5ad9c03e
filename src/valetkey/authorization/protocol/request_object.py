"""The request object: a request's parameters as claims (OpenID Connect Core 6, RFC 9101)."""

from collections.abc import Mapping
from typing import NoReturn

import msgspec

from valetkey.authorization.model.register.client import Client
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.jwt import Claims
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import from_base64url
from valetkey.kernel.strict_json import read_object

TYPES = ("", "jwt", "oauth-authz-req+jwt")
"""The values of `typ` that a request object may have; a client assertion's is not among them."""

REQUEST = "request"
REQUEST_URI = "request_uri"

_LEEWAY = seconds(10)
_DOTS = 2
_ABOUT_ITSELF = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
"""What a JWT says about itself (RFC 7519 section 4.1): no parameter of a request."""


def read_request_object(
    payload: bytes, client: Client, *, issuer: str, now: Instant, by_value: bool
) -> Claims:
    """What a request object says whose signature is proven, or that needs none.

    `iss` and `aud` may be absent; `exp` only where the object was fetched from an address that the
    client registered, and can take away: one sent by value could be replayed for ever. What is
    there must be right. Refused with `invalid_request_object`.
    """
    try:
        claims = jwt.read_claims(
            payload, audience=issuer, issuer=client.id, now=now, leeway=_LEEWAY, sparse=True
        )
    except Refused as refused:
        raise broken(refused.refusal) from None
    if by_value and "exp" not in claims:
        _refuse("it has no exp", "exp.missing")
    # RFC 9101 section 10.8: what names its client as subject was made to prove who the client is.
    if claims.get("sub") == client.id:
        _refuse("it names the app as its subject, as only an assertion does", "assertion")
    for name in (REQUEST, REQUEST_URI):
        if name in claims:
            _refuse(f"it has a {name} inside", "nested")
    return claims


def merged(parameters: Mapping[str, str], claims: Claims) -> dict[str, str]:
    """The request: what the object says wins over what came beside it.

    Both must agree on `client_id` and `response_type` (OpenID Connect Core section 6.1). What is
    not a string becomes the JSON text that the parameter would have been: `claims` its
    object, `max_age` its digits. Refused with `invalid_request_object`.
    """
    inside = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in claims.items()
        if name not in _ABOUT_ITSELF
    }
    for name in ("client_id", "response_type"):
        if name in inside and name in parameters and inside[name] != parameters[name]:
            _refuse(f"it has another {name} than the request around it", f"{name}.other")
    outside = {
        name: text for name, text in parameters.items() if name not in {REQUEST, REQUEST_URI}
    }
    return outside | inside


def way_back(parameters: Mapping[str, str], token: str) -> dict[str, str]:
    """The parameters that decide how the refusal of an object travels.

    The object is not proven, so from inside comes only what anybody could have sent beside it:
    `response_mode`, and where none is beside it the others. A redirect URI has to be registered,
    wherever it stands.
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
    """A refusal of a request object that is there; `parameters` say how the refusal travels."""

    def __init__(self, refusal: Refusal, parameters: Mapping[str, str]) -> None:
        """Carry both."""
        super().__init__(refusal)
        self.parameters = parameters


def is_registered(uri: str, client: Client) -> bool:
    """Whether the client registered this `request_uri`.

    The fragment does not count: it is the hash of what lies there, and changes with it.
    """
    place = without_fragment(uri)
    return any(place == without_fragment(known) for known in client.openid.request_uris)


def without_fragment(uri: str) -> str:
    """The address itself."""
    return uri.partition("#")[0]


def broken(problem: Refusal) -> Refused:
    """The refusal of a request object that failed a rule of JWTs."""
    return Refused(
        Refusal(
            ErrorCode.INVALID_REQUEST_OBJECT,
            "the request object is not one that this app signed for this server, or it is over",
            f"request_object.{problem.check}",
            problem.expected,
            problem.received,
        )
    )


def _refuse(reason: str, check: str) -> NoReturn:
    raise Refused(
        Refusal(
            ErrorCode.INVALID_REQUEST_OBJECT,
            f"the request object cannot be used: {reason}",
            f"request_object.{check}",
        )
    )
