"""`request` and `request_uri`: requests passed as JWTs (OpenID Connect Core section 6)."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.request_object import (
    REQUEST,
    REQUEST_URI,
    TYPES,
    ObjectRefused,
    broken,
    delivery_parameters,
    is_registered,
    merged,
    read_request_object,
    without_fragment,
)
from valetkey.authorization.tokens.client_keys import ClientKeys, SharedSecrets
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

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
                secrets = self.shared.of(client, now)
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
