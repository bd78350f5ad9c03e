"""Signed assertions: `client_secret_jwt` and `private_key_jwt` (RFC 7523 section 3).

The rules common to both are those of RFC 7521 section 4.2.
"""

from collections.abc import Callable
from typing import cast

from valetkey.authorization.model.client import AuthenticationMethod, Client
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.protocol.client_authentication.method import (
    ClientProof,
    Method,
    Presented,
    ProofInputs,
    not_proven,
)
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, hours, seconds
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.kernel.secret import from_base64url
from valetkey.kernel.strict_json import read_foreign_object
from valetkey.kernel.text import translatable

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

PARAMETERS = ("client_assertion", "client_assertion_type")

TYPES = ("", "jwt", "client-authentication+jwt")
"""Accepted values of `typ`; that of a request object is not among them."""

LEEWAY = seconds(10)
"""Maximum difference of clocks, for accepting an assertion and for remembering it."""

_LONGEST_LIFE = hours(1)
"""Maximum lifetime of an assertion; some libraries use the whole of it."""

_LONGEST_JTI = 256
_PARTS = 3


def is_shown(presented: Presented) -> bool:
    """Return whether the request carries an assertion or a parameter that announces one."""
    return any(name in presented.parameters for name in PARAMETERS)


def is_shared(presented: Presented) -> bool:
    """Return whether the assertion is signed with a shared secret. Unverified."""
    return header_member(presented, "alg") == mac.ALGORITHM


def header_member(presented: Presented, name: str) -> str | None:
    """Return a string of the assertion's header. Unverified: use it only to find the key."""
    value = _member(presented, 0, name)
    return value if isinstance(value, str) else None


def claims(presented: Presented) -> str:
    """Return the client id that the request names. Unverified."""
    named = presented.parameters.get("client_id")
    if named is not None:
        return named
    # Unverified: it only says whose keys to try.
    issuer = _member(presented, 1, "iss")
    return issuer if isinstance(issuer, str) else ""


def verify_assertion(
    presented: Presented,
    client: Client,
    inputs: ProofInputs,
    method: AuthenticationMethod,
    verify: Callable[[str], jwt.Claims],
) -> ClientProof | Refusal:
    """Return the proof by an assertion of this client that `verify` accepts, or why not."""
    if presented.parameters.get("client_assertion_type") != TYPE:
        return not_proven("assertion.type", TYPE, "another type")
    if client.authentication_method != method:
        return not_proven("assertion.method", client.authentication_method, method.value)
    try:
        claims = verify(presented.parameters.get("client_assertion") or "")
    except Refused as refused:
        problem = refused.refusal
        return not_proven(f"assertion.{problem.check}", problem.expected, problem.received)
    jti, expires_at = claims.get("jti"), claims.get("exp")
    named = claims.get("aud")
    listed = cast("list[object]", named) if isinstance(named, list) else [named]
    # For others too means that others can present it here (RFC 7523 section 3, rule 3).
    if not all(name in presented.audiences for name in listed):
        return not_proven("assertion.audience", " or ".join(presented.audiences), "others as well")
    if claims.get("sub") != client.id:
        return not_proven("assertion.subject", client.id, "another subject")
    if not isinstance(expires_at, int) or expires_at > presented.now + _LONGEST_LIFE + LEEWAY:
        return not_proven("assertion.long", f"at most {_LONGEST_LIFE} s", "a longer life")
    if not isinstance(jti, str) or not 0 < len(jti) <= _LONGEST_JTI:
        return not_proven("assertion.jti", f"1 to {_LONGEST_JTI} characters", "something else")
    mark = Voucher(
        VoucherKind.ASSERTION,
        inputs.fingerprints.fingerprint(f"assertion:{client.id}", jti),
        client_id=client.id,
        grant_id="",
        payload="",
        expires_at=Instant(expires_at + LEEWAY + 1),
    )
    return ClientProof(mark)


def _member(presented: Presented, part: int, name: str) -> object:
    assertion = presented.parameters.get("client_assertion") or ""
    parts = assertion.split(".", _PARTS) if len(assertion) <= jwt.LONGEST else []
    data = from_base64url(parts[part]) if len(parts) == _PARTS else None
    members = read_foreign_object(data) if data is not None else None
    return None if members is None else members.get(name)


def _is_secret_jwt(presented: Presented) -> bool:
    return is_shown(presented) and is_shared(presented)


def _proves_secret_jwt(
    presented: Presented, client: Client, inputs: ProofInputs
) -> ClientProof | Refusal:
    def verify(token: str) -> jwt.Claims:
        return mac.verify_shared(
            token,
            inputs.shared(client, presented.now),
            typ=TYPES,
            issuer=client.id,
            audience=presented.audiences,
            now=presented.now,
            leeway=LEEWAY,
            foreign=True,
        )

    return verify_assertion(
        presented, client, inputs, AuthenticationMethod.CLIENT_SECRET_JWT, verify
    )


CLIENT_SECRET_JWT = Method(
    AuthenticationMethod.CLIENT_SECRET_JWT.value,
    ("client_secret_jwt",),
    translatable("Signature with its client secret"),
    _is_secret_jwt,
    claims,
    _proves_secret_jwt,
    parameters=PARAMETERS,
    signing_algorithms=(mac.ALGORITHM,),
)


def _is_private_key_jwt(presented: Presented) -> bool:
    return is_shown(presented) and not is_shared(presented)


def _proves_private_key_jwt(
    presented: Presented, client: Client, inputs: ProofInputs
) -> ClientProof | Refusal:
    registered = client.openid.token_endpoint_auth_signing_alg

    def verify(token: str) -> jwt.Claims:
        return jwt.verify(
            token,
            inputs.keys,
            typ=TYPES,
            algorithms=tuple(a for a in Algorithm if registered in {"", a}),
            issuer=client.id,
            audience=presented.audiences,
            now=presented.now,
            leeway=LEEWAY,
            foreign=True,
        )

    return verify_assertion(presented, client, inputs, AuthenticationMethod.PRIVATE_KEY_JWT, verify)


PRIVATE_KEY_JWT = Method(
    AuthenticationMethod.PRIVATE_KEY_JWT.value,
    ("private_key_jwt",),
    translatable("Signature with its private key"),
    _is_private_key_jwt,
    claims,
    _proves_private_key_jwt,
    needs_keys=True,
    parameters=PARAMETERS,
    signing_algorithms=tuple(algorithm.value for algorithm in Algorithm),
)
