"""A signed assertion (RFC 7521 section 4.2, RFC 7523 section 3, OpenID Core section 9)."""

from valetkey.authorization.client_authentication.method import Method, Presented, not_proven
from valetkey.authorization.model.register.client import AuthenticationMethod, Client
from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import Algorithm
from valetkey.kernel.moment import Instant, minutes, seconds
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.kernel.secret import FingerprintKey, from_base64url
from valetkey.kernel.strict_json import read_object

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

LEEWAY = seconds(10)
"""How far clocks may differ: the same for accepting an assertion and for remembering it."""

_LONGEST_LIFE = minutes(10)
_LONGEST_JTI = 256
_PARTS = 3


def _recognises(presented: Presented) -> bool:
    names = presented.parameters.names
    return "client_assertion" in names or "client_assertion_type" in names


def _claims(presented: Presented) -> str:
    named = presented.parameters.get("client_id")
    if named is not None:
        return named
    # Unverified: it only says whose keys to try.
    return _issuer(presented.parameters.get("client_assertion") or "")


def _issuer(assertion: str) -> str:
    parts = assertion.split(".", 3) if len(assertion) <= jwt.LONGEST else []
    payload = from_base64url(parts[1]) if len(parts) == _PARTS else None
    claims = read_object(payload) if payload is not None else None
    issuer = claims.get("iss") if claims is not None else None
    return issuer if isinstance(issuer, str) else ""


def _proves(
    presented: Presented, client: Client, fingerprints: FingerprintKey
) -> Voucher | Refusal | None:
    if presented.parameters.get("client_assertion_type") != TYPE:
        return not_proven("assertion.type", TYPE, "another type")
    if client.authentication_method is not AuthenticationMethod.PRIVATE_KEY_JWT:
        return not_proven("assertion.method", client.authentication_method.value, "an assertion")
    try:
        claims = jwt.verify(
            presented.parameters.get("client_assertion") or "",
            client.key_set,
            typ=("", "jwt", "client-authentication+jwt"),
            algorithms=tuple(Algorithm),
            issuer=client.id,
            audience=presented.audiences,
            now=presented.now,
            leeway=LEEWAY,
        )
    except Refused as refused:
        return not_proven(
            f"assertion.{refused.refusal.check}", refused.refusal.expected, refused.refusal.received
        )
    jti, expires_at = claims.get("jti"), claims.get("exp")
    if claims.get("sub") != client.id:
        return not_proven("assertion.subject", client.id, "another subject")
    if not isinstance(expires_at, int) or expires_at > presented.now + _LONGEST_LIFE + LEEWAY:
        return not_proven("assertion.long", f"at most {_LONGEST_LIFE} s", "a longer life")
    if not isinstance(jti, str) or not 0 < len(jti) <= _LONGEST_JTI:
        return not_proven("assertion.jti", f"1 to {_LONGEST_JTI} characters", "something else")
    return Voucher(
        VoucherKind.ASSERTION,
        fingerprints.of(f"assertion:{client.id}", jti),
        client_id=client.id,
        grant_id="",
        payload="",
        expires_at=Instant(expires_at + LEEWAY + 1),
    )


METHOD = Method(
    AuthenticationMethod.PRIVATE_KEY_JWT.value,
    ("private_key_jwt",),
    _recognises,
    _claims,
    _proves,
)
