"""The JWT bearer grant: an assertion as a grant (RFC 7523 section 2.1).

A service account presents an assertion of its own, which is what authenticates the client: it is
checked as `private_key_jwt` is (issuer and subject are the client, audience is this server, `jti`
can be used once, at most an hour of life) before this transaction. The identity assertion of
another server does not authenticate the client; see `identity_assertion`.
"""

from valetkey.authorization.grant_types import identity_assertion
from valetkey.authorization.grant_types.client_credentials import issue_own
from valetkey.authorization.grant_types.grant_type import Authenticate, GrantType, TokenRequest
from valetkey.authorization.model.client import STAFF, AuthenticationMethod, GrantTypeName
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.identity_assertion import is_identity_assertion, not_accepted
from valetkey.authorization.tokens.issue import Granted
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace


async def prepare(request: TokenRequest, authenticate: Authenticate) -> TokenRequest:
    """Verify the identity assertion of another server. Raises Refused."""
    text = request.required("assertion")
    if not is_identity_assertion(text):
        return request
    if request.assertions is None:
        raise Refused(not_accepted("off", "tokens.identity_assertions", "off"))
    read = await request.assertions.read(text, request.client, request.now)
    return replace(request, assertion=read)


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Issue an access token for the client itself, or for the user of an identity assertion."""
    if request.assertion is not None:
        return identity_assertion.accept(tx, request, request.assertion)
    if request.client.authentication_method != AuthenticationMethod.PRIVATE_KEY_JWT:
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "the assertion must be signed with a registered private key",
            "jwt_bearer.key",
            AuthenticationMethod.PRIVATE_KEY_JWT.value,
            request.client.authentication_method,
        )
    return issue_own(tx, request, GRANT_TYPE.name)


GRANT_TYPE = GrantType(
    GrantTypeName.JWT_BEARER.value,
    redeem,
    prepare,
    GrantTypeRules(needs_secret=True, editors=STAFF),
)
