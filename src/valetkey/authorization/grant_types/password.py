"""Resource owner password credentials, for the operator's own applications (RFC 6749 section 4.3).

Disabled for a client until an administrator enables it: the application sees the password.
"""

from valetkey.authorization.grant_types.grant_type import (
    Authenticate,
    GrantType,
    TokenRequest,
    outside_scope,
    target,
)
from valetkey.authorization.grant_types.refresh_token import (
    begin,
    first_refresh_token,
    not_admitted,
)
from valetkey.authorization.model.api import generations
from valetkey.authorization.model.client import STAFF
from valetkey.authorization.model.event.grants import AccessTokenIssued
from valetkey.authorization.model.grant import liveness_of, require_live
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.protocol.resource import at, grantable, wanted_at, with_access
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.kernel.moment import hours
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

NAME = "password"

_LONGEST = hours(1)
"""Maximum lifetime of its access tokens, even if other tokens of the client live longer."""


async def prepare(request: TokenRequest, authenticate: Authenticate) -> TokenRequest:
    """Authenticate the user, with the rate limit and the audit events of the sign-in page."""
    if request.client.is_public:
        raise Refused.because(
            ErrorCode.UNAUTHORIZED_CLIENT,
            "only a confidential client may send a user's password",
            "password.public_client",
        )
    username, password = request.required("username"), request.required("password")
    user = await authenticate(username, password, request.address, request.now)
    if isinstance(user, Refusal):
        raise Refused(user)
    return replace(request, user=user)


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Create a grant for the authenticated user.

    Refused for an account that has a second factor, or must add one.
    """
    client, now = request.client, request.now
    if request.user is None:
        return _refused("password.wrong")
    tx.users.hold(request.user.uid)
    user = tx.users.find(request.user.uid)
    if user is None:
        return _refused("password.wrong")
    if problem := require_live(liveness_of(client, user), now):
        return problem
    api = target(tx, request)
    if isinstance(api, Refusal):
        return api
    if problem := not_admitted(tx, client, user.uid):
        return problem
    if tx.users.has_second_factor(user.uid):
        return _refused("password.second_factor")
    if user.factor_required_at is not None:
        return _refused("password.factor_required")
    allowed = grantable(client, (api,)) - request.policy.own_scope
    default = (client.default_scope & allowed) or allowed if api.is_default else allowed
    scope = with_access(wanted_at(request.wanted_scope(), (api,)) or default, (api,))
    if not scope or not scope <= allowed:
        return outside_scope(allowed)
    grant_id = request.fresh.grant_id
    grant = begin(request, user, scope, grant_id=grant_id, auth_time=now, api=api, apis=(api,))
    tx.grants.issue(grant, generations((api,)))
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=at(api, scope),
            api=api,
            claims=request.claims,
            draw=request.fresh.access,
            lifetime=min(request.policy.lifetime_of(client, api), _LONGEST),
            now=now,
            user=user,
            grant_id=grant.id,
            auth_time=now,
            ends_at=grant.expires_at,
            refresh_token=first_refresh_token(request, grant),
        ),
        request.fingerprints,
    )
    values = (granted.token_id, NAME, str(granted.scope), granted.api.identifier)
    event = AccessTokenIssued(client.id, user.uid, grant.id, *values)
    tx.events.add(event, now)
    return granted


def _refused(check: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the username or password is wrong, or this account must sign in at the sign-in page",
        check,
    )


GRANT_TYPE = GrantType(
    NAME,
    redeem,
    prepare,
    GrantTypeRules(
        needs_secret=True,
        issues_refresh_tokens=True,
        editors=STAFF,
        label=translatable(
            "Password grant: users enter their password in the app, which sees it; second factors "
            "are bypassed"
        ),
    ),
)
