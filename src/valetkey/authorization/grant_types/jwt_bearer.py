"""JWT bearer: a service account presents an assertion of its own (RFC 7523 section 2.1).

The assertion is what authenticates the client: it is checked as `private_key_jwt` is
(issuer and subject are the client, audience is this server, `jti` counts once, at most an hour of
life) before this transaction.
"""

from valetkey.authorization.grant_types.client_credentials import issue_own
from valetkey.authorization.grant_types.grant_type import GrantType, TokenRequest
from valetkey.authorization.model.register.client import AuthenticationMethod, GrantTypeName
from valetkey.authorization.protocol.register.grant_types import GrantTypeRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Granted
from valetkey.kernel.refusal import ErrorCode, Refusal


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Issue an access token for the client itself, as by client credentials."""
    request.the("assertion")
    if request.client.authentication_method is not AuthenticationMethod.PRIVATE_KEY_JWT:
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "the assertion must be signed with a registered private key",
            "jwt_bearer.key",
            AuthenticationMethod.PRIVATE_KEY_JWT.value,
            request.client.authentication_method.value,
        )
    return issue_own(tx, request, GRANT_TYPE.name)


GRANT_TYPE = GrantType(
    GrantTypeName.JWT_BEARER.value,
    redeem,
    rules=GrantTypeRules(needs_secret=True, for_self_registration=False, for_portal=False),
)
