"""An assertion signed with the client's secret (RFC 7523 section 3, OpenID Core section 9)."""

from valetkey.authorization.client_authentication import assertion
from valetkey.authorization.client_authentication.method import Method, Presented, ProofInputs
from valetkey.authorization.model.register.client import AuthenticationMethod, Client
from valetkey.authorization.model.voucher import Voucher
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.refusal import Refusal


def _recognises(presented: Presented) -> bool:
    return assertion.is_shown(presented) and assertion.is_shared(presented)


def _proves(presented: Presented, client: Client, means: ProofInputs) -> Voucher | Refusal | None:
    def verify(token: str) -> jwt.Claims:
        return mac.verify_shared(
            token,
            means.shared.of(client, presented.now),
            typ=assertion.TYPES,
            issuer=client.id,
            audience=presented.audiences,
            now=presented.now,
            leeway=assertion.LEEWAY,
        )

    return assertion.judge(presented, client, means, AuthenticationMethod.CLIENT_SECRET_JWT, verify)


METHOD = Method(
    AuthenticationMethod.CLIENT_SECRET_JWT.value,
    ("client_secret_jwt",),
    _recognises,
    assertion.claims,
    _proves,
)
