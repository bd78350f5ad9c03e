"""Request objects: the parameters of a request as a JWT (OpenID Connect Core 6, RFC 9101)."""

from collections.abc import Mapping
from typing import NoReturn, cast

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.protocol.resource import RESOURCE, joined
from valetkey.authorization.tokens.client_keys import ClientKeys, SharedSecrets
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwt import Claims
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
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
        return joined(str(resource) for resource in cast("list[object]", value))
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
    bare_uri = without_fragment(uri)
    return any(
        bare_uri == without_fragment(request_uri) for request_uri in client.openid.request_uris
    )


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


MEDIA_TYPES = (
    "application/oauth-authz-req+jwt",
    "application/jwt",
    "application/jose",
    "application/json",
    "text/plain",
)
"""Accepted media types of a request object: that of RFC 9101 first, then earlier ones."""

_WORTH_NEW_KEYS = (jwt.UNKNOWN_KEY, "jwt.alg", "jwt.signature")
WORTH_NEW_KEYS = frozenset(f"request_object.{check}" for check in _WORTH_NEW_KEYS)
"""The checks of refusals that new keys of the client might resolve."""


class RequestObjects(Struct, frozen=True):
    """Reads request objects. `issuer` is the identifier of this server."""

    issuer: str
    keys: ClientKeys
    shared: SharedSecrets
    http: OutboundHttp

    async def resolve(
        self, parameters: Mapping[str, str], client: Client, now: Instant
    ) -> dict[str, str]:
        """Return the request's parameters merged with those of its request object (RFC 9101).

        Call it once, before anything else is checked, with the client of the plain `client_id`.
        Without `request` and `request_uri` the parameters are returned unchanged.

        Refused with `invalid_request` for both at once, `request_not_supported` and
        `request_uri_not_supported` for what this client did not register (unsigned objects, URIs),
        `invalid_request_uri` for one that is not registered or cannot be fetched, and
        `invalid_request_object` for everything else. An error may be sent to the client only after
        a redirect URI was verified; otherwise it is shown to the user. ObjectRefused says how the
        refusal of an existing object is delivered.
        """
        if REQUEST not in parameters and REQUEST_URI not in parameters:
            return dict(parameters)
        if REQUEST in parameters and REQUEST_URI in parameters:
            raise _refused(
                ErrorCode.INVALID_REQUEST,
                "request and request_uri cannot come together; send one of them",
                "two",
            )
        token, source = parameters.get(REQUEST, ""), REQUEST
        if REQUEST_URI in parameters:
            token, source = await self._fetched(parameters[REQUEST_URI], client), REQUEST_URI
        try:
            payload = await self._proven(token, source, client, now)
            claims = read_request_object(
                payload, client, issuer=self.issuer, now=now, by_value=source == REQUEST
            )
            return merged(parameters, claims)
        except Refused as refused:
            raise ObjectRefused(refused.refusal, delivery_parameters(parameters, token)) from None

    async def _fetched(self, uri: str, client: Client) -> str:
        if not client.openid.request_uris:
            raise _refused(
                ErrorCode.REQUEST_URI_NOT_SUPPORTED,
                "this app registered no request_uri",
                "uri.none",
            )
        if not is_registered(uri, client):
            raise _refused(
                ErrorCode.INVALID_REQUEST_URI,
                "request_uri is not one that this app registered",
                "uri.unknown",
            )
        try:
            fetched = await self.http.get(without_fragment(uri), accept=MEDIA_TYPES)
            return fetched.body.decode("ascii").strip()
        except Unfetchable as error:
            check = error.check
        except UnicodeDecodeError:
            check = "fetch.ascii"
        raise _refused(
            ErrorCode.INVALID_REQUEST_URI, "no request could be fetched from request_uri", check
        )

    async def _proven(self, token: str, source: str, client: Client, now: Instant) -> bytes:
        registered = client.openid.request_object_signing_alg
        try:
            header = jwt.header_of(token)
            if header.alg == jwt.UNSIGNED:
                if registered != jwt.UNSIGNED:
                    raise _refused(
                        _NOT_SUPPORTED[source], "this app's requests must be signed", "unsigned"
                    )
                return jwt.parse_unsigned(token, TYPES).payload
            if header.alg == mac.ALGORITHM and registered in {"", mac.ALGORITHM}:
                secrets = self.shared.live_secrets(client, now)
                return mac.verify_shared_signature(token, secrets, typ=TYPES).payload
            algorithms = tuple(a for a in Algorithm if registered in {"", a})
            return await self._signed(token, client, now, algorithms, header.kid)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.INVALID_TOKEN:
                raise
            problem = refused.refusal
            trouble = self.keys.problem_of(client)
            if trouble and problem.check in _WORTH_NEW_KEYS:
                problem = replace(problem, check=trouble, expected="keys at its jwks_uri")
            raise broken(problem) from None

    async def _signed(
        self,
        token: str,
        client: Client,
        now: Instant,
        algorithms: tuple[Algorithm, ...],
        kid: str | None,
    ) -> bytes:
        keys = await self.keys.signing(client, now, kid=kid)
        try:
            return jwt.verify_signature(token, keys, typ=TYPES, algorithms=algorithms).payload
        except Refused as refused:
            if refused.refusal.check not in _WORTH_NEW_KEYS:
                raise
            again = await self.keys.signing_again(client, now)
            if again is keys:
                raise
        return jwt.verify_signature(token, again, typ=TYPES, algorithms=algorithms).payload


_NOT_SUPPORTED = {
    REQUEST: ErrorCode.REQUEST_NOT_SUPPORTED,
    REQUEST_URI: ErrorCode.REQUEST_URI_NOT_SUPPORTED,
}


def _refused(code: ErrorCode, description: str, check: str) -> Refused:
    return Refused.because(code, description, f"request_object.{check}")
