"""The registry of client authentication methods, from which metadata and rules derive.

Public clients prove nothing and only name themselves (RFC 6749 section 3.2.1): in the body or, as
oidc-agent and golang.org/x/oauth2 do, by a Basic header whose secret is empty, since an empty
secret may be omitted (section 2.3.1).
"""

from valetkey.authorization.client_authentication import assertion, client_secret
from valetkey.authorization.client_authentication.method import (
    Method,
    Presented,
    ProofInputs,
    not_proven,
)
from valetkey.authorization.model.register.client import AuthenticationMethod, Client
from valetkey.authorization.model.voucher import Voucher
from valetkey.kernel.refusal import Refusal


def _recognises(presented: Presented) -> bool:
    names = presented.parameters.names
    return (
        (presented.basic is None or not presented.basic.raw_client_secret)
        and "client_secret" not in names
        and "client_assertion" not in names
        and "client_assertion_type" not in names
    )


def _claims(presented: Presented) -> str:
    if presented.basic is not None:
        return presented.basic.client_id
    return presented.parameters.get("client_id") or ""


def _proves(presented: Presented, client: Client, means: ProofInputs) -> Voucher | Refusal | None:
    if client.authentication_method is AuthenticationMethod.NONE:
        return None
    return not_proven("unproven", client.authentication_method.value, "no proof")


NONE = Method(AuthenticationMethod.NONE.value, ("none",), _recognises, _claims, _proves)


METHODS: tuple[Method, ...] = (
    client_secret.METHOD,
    assertion.CLIENT_SECRET_JWT,
    assertion.PRIVATE_KEY_JWT,
    NONE,
)
