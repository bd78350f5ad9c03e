"""The client credentials grant: access for the application itself (RFC 6749 section 4.4)."""

from valetkey.authorization.grant_types.grant_type import (
    GrantType,
    TokenRequest,
    outside_scope,
    target,
)
from valetkey.authorization.model.client import CLIENT_SCOPE, GrantTypeName
from valetkey.authorization.model.event.grants import AccessTokenIssued
from valetkey.authorization.model.grant import liveness_of, require_live
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.text import translatable


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Issue an access token for the client itself: no user, no refresh token, no user scope.

    Every client may read its own record at the default API. Other scopes of its own have to be
    registered and requested; at a declared API, all that are registered are the default.
    """
    return issue_own(tx, request, GRANT_TYPE.name)


def issue_own(tx: Transaction, request: TokenRequest, grant_type: str) -> Granted | Refusal:
    """Issue an access token for the client itself; `grant_type` is the name for the event."""
    client, now = request.client, request.now
    api = target(tx, request)
    if isinstance(api, Refusal):
        return api
    allowed = client.scope & api.machine_scope
    if api.is_default:
        allowed = CLIENT_SCOPE | allowed
    requested = request.wanted_scope() or (CLIENT_SCOPE if api.is_default else allowed)
    if not requested or not requested <= allowed:
        return outside_scope(allowed)
    if problem := require_live(liveness_of(client), now):
        return problem
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=requested,
            api=api,
            claims=request.claims,
            draw=request.fresh.access,
            lifetime=request.policy.lifetime_of(client, api),
            now=now,
        ),
        request.fingerprints,
    )
    values = (granted.token_id, grant_type, str(granted.scope), granted.api.identifier)
    event = AccessTokenIssued(client.id, None, None, *values)
    tx.events.add(event, now)
    return granted


GRANT_TYPE = GrantType(
    GrantTypeName.CLIENT_CREDENTIALS.value,
    redeem,
    rules=GrantTypeRules(
        needs_secret=True,
        label=translatable(
            "Client credentials: the app can get tokens for itself, without a user, and read and "
            "change its own registration"
        ),
    ),
)
