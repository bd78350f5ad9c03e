"""The method of public clients.

They prove nothing and only name themselves (RFC 6749 section 3.2.1): in the body or, as
oidc-agent and golang.org/x/oauth2 do, by a Basic header whose secret is empty, since an empty
secret may be omitted (section 2.3.1).
"""

from valetkey.authorization.model.client import AuthenticationMethod, Client
from valetkey.authorization.protocol.client_authentication.method import (
    ClientProof,
    Method,
    Presented,
    ProofInputs,
    claimed_id,
    not_proven,
)
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.text import translatable


def _recognises(presented: Presented) -> bool:
    # Credentials are recognised by the method that they belong to.
    return False


def _proves(presented: Presented, client: Client, inputs: ProofInputs) -> ClientProof | Refusal:
    if client.authentication_method == AuthenticationMethod.NONE:
        return ClientProof()
    return not_proven("unproven", client.authentication_method, "no proof")


METHOD = Method(
    AuthenticationMethod.NONE.value,
    ("none",),
    translatable("None: a public client, protected by PKCE"),
    _recognises,
    claimed_id,
    _proves,
)
