"""The two transactions of identity assertion grants: issue an assertion, and accept another's.

An administrator's registration takes the place of the user's consent at both ends: it says for
which servers a client may have assertions, and which servers are trusted here. See
`tokens/identity_assertion.py` for the assertion itself.
"""

import re

from valetkey.authorization.grant_types.grant_type import TokenRequest, outside_scope
from valetkey.authorization.grant_types.refresh_token import (
    begin,
    fingerprint_of,
    not_admitted,
    parse_refresh_token,
)
from valetkey.authorization.model.api import Api, generations
from valetkey.authorization.model.client import AssertionAudience, GrantTypeName
from valetkey.authorization.model.event.grants import (
    IdentityAssertionIssued,
    IdentityAssertionRedeemed,
)
from valetkey.authorization.model.grant import liveness_of, require_live
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import OFFLINE_ACCESS, OPENID, acr_of
from valetkey.authorization.protocol.resource import (
    MOST,
    at,
    grantable,
    identifier_fault,
    parse_requested,
    plain,
    too_many_targets,
    wanted_at,
    with_access,
    wrong_target,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.identity_assertion import (
    LIFETIME,
    IdentityAssertion,
    IssuedAssertion,
    SubjectIdToken,
    not_accepted,
)
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.kernel.moment import later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import same
from valetkey.kernel.url import canonical

ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
REFRESH_TOKEN = "urn:ietf:params:oauth:token-type:refresh_token"

_NEVER = Scope.of(OPENID, OFFLINE_ACCESS)
"""Scopes of a sign-in, which did not happen here."""

_UID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


async def prepare_to_issue(request: TokenRequest) -> TokenRequest:
    """Check the parameters of a request for an assertion, and verify its ID token.

    Raises Refused: `invalid_request` for a wrong parameter and where assertions are not issued,
    `invalid_grant` for an ID token that is not accepted.
    """
    assertions = request.assertions
    if assertions is None or not assertions.issues:
        raise Refused(_bad_request("off", "tokens.identity_assertions", "off"))
    request.required("audience")
    for name in ("actor_token", "actor_token_type"):
        if name in request.parameters:
            raise Refused(_bad_request(name, "no actor", name))
    token, kind = request.required("subject_token"), request.required("subject_token_type")
    if kind == ID_TOKEN:
        read = await assertions.read_id_token(token, request.client, request.now)
        return replace(request, id_token=read)
    if kind != REFRESH_TOKEN:
        raise Refused(
            _bad_request("subject_token_type", f"{ID_TOKEN} or {REFRESH_TOKEN}", "another type")
        )
    return request


def issue(tx: Transaction, request: TokenRequest) -> IssuedAssertion | Refusal:
    """Return an assertion about the user of an ID token or a refresh token of this client.

    The client's registration must list the other server, and limits the scope. The user must still
    allow the client access here.
    """
    client, now = request.client, request.now
    audience = _audience(request)
    if isinstance(audience, Refusal):
        return audience
    # The scope of another server: it has rules of its own for names.
    scope = Scope.parse(request.parameters.get("scope") or "") or audience.scope
    if not scope <= audience.scope:
        return outside_scope(audience.scope)
    signed_in = request.id_token or _of_refresh_token(tx, request)
    if isinstance(signed_in, Refusal):
        return signed_in
    user = _user(tx, request, signed_in)
    if isinstance(user, Refusal):
        return user
    token_id = request.fresh.access.token_id
    claims: dict[str, object] = {
        "sub": user.subject,
        "aud": audience.issuer,
        "client_id": audience.client_id,
        "jti": token_id,
        "iat": now,
        "exp": later(now, LIFETIME),
        "auth_time": signed_in.auth_time,
        **signed_in.sign_in,
    }
    # Here `audience` is the other server, never an API.
    if resources := request.named_resources:
        claims["resource"] = resources[0] if len(resources) == 1 else list(resources)
    if scope:
        claims["scope"] = str(scope)
    event = IdentityAssertionIssued(client.id, user.uid, token_id, audience.issuer, str(scope))
    tx.events.add(event, now)
    return IssuedAssertion(client, claims, scope, LIFETIME)


def _audience(request: TokenRequest) -> AssertionAudience | Refusal:
    """Return the registered audience for the server and the APIs that the request names."""
    openid, named = request.client.openid, request.required("audience")
    audience = openid.assertion_audience(named)
    if audience is None:
        return wrong_target(
            named,
            [
                assertion_audience.partition(" ")[0]
                for assertion_audience in openid.assertion_audiences
            ],
        )
    if len(request.named_resources) > MOST:
        return too_many_targets(MOST)
    for resource in request.named_resources:
        if identifier_fault(resource):
            return wrong_target(resource, ["the identifier of an API"])
    return audience


def _user(tx: Transaction, request: TokenRequest, signed_in: SubjectIdToken) -> User | Refusal:
    """Return the user, locked, if the user may still use the client."""
    client, now = request.client, request.now
    if _UID.fullmatch(signed_in.subject) is None:
        return not_accepted("subject", "a user of this server", "another subject")
    uid = Uid(int(signed_in.subject))
    tx.users.hold(uid)
    user = tx.users.find(uid)
    if user is None:
        return not_accepted("user", "an account", "none")
    if problem := require_live(liveness_of(client, user), now) or not_admitted(tx, client, uid):
        return problem
    # An ID token says nothing of the access that the user has ended since.
    if not tx.grants.live_of_app(uid, client.id, now, 1):
        return not_accepted("grant", "a user who allows the client access", "access that ended")
    return user


def _of_refresh_token(tx: Transaction, request: TokenRequest) -> SubjectIdToken | Refusal:
    """Return the sign-in behind the current refresh token, which stays valid."""
    parts = parse_refresh_token(request.required("subject_token"))
    looked_at = None if parts is None else tx.grants.find_with_user(parts[1])
    unknown = not_accepted("refresh_token", "a live refresh token of this client", "another token")
    if parts is None or looked_at is None:
        return unknown
    grant_state, user, _ = looked_at
    grant = grant_state.grant
    fingerprint = fingerprint_of(request.fingerprints, *parts)
    if (
        grant.client_id != request.client.id
        or grant.refresh_print is None
        or not same(fingerprint, grant.refresh_print)
        or grant.refresh_expires_at is None
        or grant.refresh_expires_at <= request.now
        # The user signed in to the client, here: not with a password that the client collected.
        or OPENID not in grant.scope
        or grant.grant_type == GrantTypeName.PASSWORD
    ):
        return unknown
    if problem := require_live(grant_state.liveness, request.now):
        return problem
    sign_in: dict[str, object] = {"acr": acr_of(grant.methods, ())}
    if grant.methods:
        sign_in["amr"] = list(grant.methods)
    return SubjectIdToken(user.subject, grant.auth_time, sign_in)


def accept(
    tx: Transaction, request: TokenRequest, assertion: IdentityAssertion
) -> Granted | Refusal:
    """Issue an access token for the linked account of the user whom the assertion names.

    Never with more scope than both the assertion and the client's registration have, and without a
    refresh token: the other server decides again each time. The assertion can be used once.
    """
    client, now = request.client, request.now
    assertions = request.assertions
    uid = None if assertions is None else assertions.linked_account(tx, assertion)
    if assertions is not None and uid is not None:
        tx.users.hold(uid)
        # Read again under the lock: it may have been unlinked or linked to another account.
        uid = uid if assertions.linked_account(tx, assertion) == uid else None
    user = None if uid is None else tx.users.find(uid)
    if user is None:
        return not_accepted("account", "a linked account of that user", "none")
    if problem := require_live(liveness_of(client, user), now):
        return problem
    if problem := not_admitted(tx, client, user.uid):
        return problem
    if tx.users.has_second_factor(user.uid):
        return not_accepted("second_factor", "an account without a second factor", "one with it")
    if user.factor_required_at is not None:
        return not_accepted(
            "factor_required", "an account without a second factor", "one that must add it"
        )
    api = _target(tx, request, assertion)
    if isinstance(api, Refusal):
        return api
    scope = _scope(request, assertion, api)
    if isinstance(scope, Refusal):
        return scope
    if not tx.vouchers.issue(assertion.mark(request.fingerprints)):
        return not_accepted("replayed", "an assertion not used before", "a used one")
    grant_id = request.fresh.grant_id
    grant = begin(
        request,
        user,
        scope,
        grant_id=grant_id,
        auth_time=assertion.auth_time,
        api=api,
        apis=(api,),
        refreshes=False,
    )
    tx.grants.issue(grant, generations((api,)))
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=at(api, scope),
            api=api,
            claims=request.claims,
            draw=request.fresh.access,
            lifetime=request.policy.lifetime_of(client, api),
            now=now,
            user=user,
            grant_id=grant_id,
            auth_time=assertion.auth_time,
            ends_at=grant.expires_at,
        ),
        request.fingerprints,
    )
    values = (granted.token_id, assertion.issuer, str(granted.scope), granted.api.identifier)
    event = IdentityAssertionRedeemed(client.id, user.uid, grant_id, *values)
    tx.events.add(event, now)
    return granted


def _target(tx: Transaction, request: TokenRequest, assertion: IdentityAssertion) -> Api | Refusal:
    """Return the API of the token: the one in the assertion, or the default API.

    Scope names mean nothing without their API, so an assertion is never for another one.
    """
    if len(request.resources) > 1:
        return too_many_targets(1)
    named = [*request.resources, *assertion.resources][:1]
    among = assertion.resources or (request.apis.default.identifier,)
    if named and canonical(named[0]) not in {canonical(identifier) for identifier in among}:
        return wrong_target(named[0], among)
    apis = request.apis.requested_in(tx, named, request.client)
    return apis if isinstance(apis, Refusal) else apis[0]


def _scope(request: TokenRequest, assertion: IdentityAssertion, api: Api) -> Scope | Refusal:
    """Return the scope of the grant: at most the intersection of assertion and registration."""
    asserted = parse_requested(assertion.scope)
    allowed = grantable(request.client, (api,)) - request.policy.own_scope - _NEVER
    both = Scope(tuple([name for name in wanted_at(asserted, (api,)) if name in allowed]))
    requested = request.wanted_scope()
    if not requested <= plain(both):
        return outside_scope(plain(both))
    if requested:
        both = wanted_at(requested, (api,))
    # At a declared API a token may have no scope, if the assertion names none.
    if not both and (asserted or api.is_default):
        return outside_scope(plain(allowed))
    return with_access(both, (api,))


def _bad_request(check: str, expected: str, received: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        "an identity assertion cannot be requested this way",
        f"identity_assertion.{check}",
        expected,
        received,
    )
