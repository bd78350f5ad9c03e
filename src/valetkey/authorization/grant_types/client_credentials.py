"""Client credentials: access for the application itself (RFC 6749 section 4.4)."""

from valetkey.authorization.grant_types.grant_type import (
    GrantType,
    TokenRequest,
    outside_scope,
    wrong_target,
)
from valetkey.authorization.model.event.grants import AccessTokenIssued
from valetkey.authorization.model.register.client import CLIENT_SCOPE
from valetkey.authorization.protocol.liveness import liveness_of, require_live
from valetkey.authorization.protocol.register.grant_types import GrantTypeRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.kernel.refusal import Refusal


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Issue an access token for the client itself: no user, no refresh token, no user scope.

    Every client may read its own record. Other scopes of its own have to be registered and
    requested.
    """
    client, now = request.client, request.now
    wanted = request.wanted_scope() or CLIENT_SCOPE
    allowed = CLIENT_SCOPE | (client.scope & request.policy.own_scope)
    if not wanted <= allowed:
        return outside_scope(allowed)
    if problem := wrong_target(request) or require_live(liveness_of(client), now):
        return problem
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=wanted,
            audience=request.policy.audience,
            draw=request.fresh.access,
            lifetime=request.policy.lifetime_of(client),
            now=now,
        ),
        request.fingerprints,
    )
    event = AccessTokenIssued(
        client.id, None, None, granted.token_id, GRANT_TYPE.name, str(granted.scope)
    )
    tx.events.add(event, now)
    return granted


GRANT_TYPE = GrantType("client_credentials", redeem, rules=GrantTypeRules(needs_secret=True))
