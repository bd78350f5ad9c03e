"""An assertion signed with the client's private key (RFC 7523 section 3, OpenID Core section 9)."""

from valetkey.authorization.client_authentication import assertion
from valetkey.authorization.client_authentication.method import Method, Presented, ProofInputs
from valetkey.authorization.model.register.client import AuthenticationMethod, Client
from valetkey.authorization.model.voucher import Voucher
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.refusal import Refusal


def _recognises(presented: Presented) -> bool:
    return assertion.is_shown(presented) and not assertion.is_shared(presented)


def _proves(presented: Presented, client: Client, means: ProofInputs) -> Voucher | Refusal | None:
    registered = client.openid.token_endpoint_auth_signing_alg

    def verify(token: str) -> jwt.Claims:
        return jwt.verify(
            token,
            means.keys,
            typ=assertion.TYPES,
            algorithms=tuple(a for a in Algorithm if registered in {"", a}),
            issuer=client.id,
            audience=presented.audiences,
            now=presented.now,
            leeway=assertion.LEEWAY,
        )

    return assertion.judge(presented, client, means, AuthenticationMethod.PRIVATE_KEY_JWT, verify)


METHOD = Method(
    AuthenticationMethod.PRIVATE_KEY_JWT.value,
    ("private_key_jwt",),
    _recognises,
    assertion.claims,
    _proves,
    needs_keys=True,
)
