"""Token exchange: another token of a user, with fewer rights (RFC 8693).

A client exchanges its own access tokens, and those of the clients that its registration lists. The
new token belongs to the grant of the token presented, ends with it, and never has more scope or a
later expiry. It is for the same API, or for another one for which the user allowed the app too.
With an actor token the new token names the actor (delegation); without one it does not
(impersonation). What is issued for another authorization server is an identity assertion; see
`identity_assertion`.
"""

from valetkey.authorization.grant_types import identity_assertion
from valetkey.authorization.grant_types.grant_type import (
    Authenticate,
    GrantType,
    TokenRequest,
    outside_scope,
)
from valetkey.authorization.grant_types.refresh_token import apis_of, not_admitted
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import STAFF, GrantTypeName
from valetkey.authorization.model.event.grants import AccessTokenIssued
from valetkey.authorization.model.grant import require_live
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES, OFFLINE_ACCESS, OPENID
from valetkey.authorization.protocol.metadata import ID_JAG_TOKEN
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.protocol.resource import (
    AUDIENCE,
    at,
    choose,
    issuable,
    still,
    too_many_targets,
    with_audience,
    wrong_target,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.identity_assertion import IssuedAssertion
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.authorization.tokens.read import Read, TokenState
from valetkey.kernel.jose.access_token import MOST_ACTORS
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import canonical

ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"

SUBJECT, ACTOR = "subject_token", "actor_token"

_IDENTITY = Scope(tuple(IDENTITY_SCOPES))
_NEVER = Scope.of(OPENID, OFFLINE_ACCESS)
"""Scopes of a sign-in, which an exchange is not."""


async def prepare(request: TokenRequest, authenticate: Authenticate) -> TokenRequest:
    """Check the parameters and verify the signatures of the tokens."""
    if _wants_assertion(request):
        return await identity_assertion.prepare_to_issue(request)
    for name in (SUBJECT, ACTOR):
        if name == SUBJECT or f"{name}_type" in request.parameters or name in request.parameters:
            request.required(name)
            if request.required(f"{name}_type") != ACCESS_TOKEN_TYPE:
                raise Refused(_invalid(f"{name}_type", ACCESS_TOKEN_TYPE, "another type"))
    token_type = request.parameters.get("requested_token_type") or ACCESS_TOKEN_TYPE
    if token_type != ACCESS_TOKEN_TYPE:
        raise Refused(_invalid("requested_token_type", ACCESS_TOKEN_TYPE, "another type"))
    reads = {
        name: await request.reader.read_by_value(token, request.now)
        for name in (SUBJECT, ACTOR)
        if (token := request.parameters.get(name))
    }
    return replace(request, reads=reads)


def redeem(tx: Transaction, request: TokenRequest) -> Granted | IssuedAssertion | Refusal:
    """Issue the new token. Anything wrong with a token presented is `invalid_request`."""
    if _wants_assertion(request):
        return identity_assertion.issue(tx, request)
    client, now = request.client, request.now
    subject = _find(tx, request, SUBJECT)
    if isinstance(subject, Refusal):
        return subject
    read = subject.read
    if read.uid is None or read.grant_id is None:
        return _invalid(f"{SUBJECT}.user", "a token of a user", "a client's own")
    tx.users.hold(Uid(read.uid))
    # Read again under the lock: an ending meanwhile counts.
    subject = _find(tx, request, SUBJECT)
    if isinstance(subject, Refusal):
        return subject
    if read.client_id not in {client.id, *client.exchanges_tokens_of}:
        return _invalid(f"{SUBJECT}.client", "a client that the registration lists", "another")
    actors = _actors(tx, request, read.actors)
    if isinstance(actors, Refusal):
        return actors
    target = _target(tx, request, read)
    if isinstance(target, Refusal):
        return target
    api, granted_scope = target
    declared = client.scope if api.is_default else Scope(tuple(api.scopes))
    allowed = (granted_scope & declared) - request.policy.own_scope - _NEVER
    scope = request.wanted_scope() or allowed
    # At a declared API a token may have no scope; at the default API it would be useless.
    if not scope <= allowed or (api.is_default and not scope):
        return outside_scope(allowed)
    refused = not_admitted(tx, client, Uid(read.uid))
    if refused is not None:
        return refused
    user = tx.users.find(Uid(read.uid))
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=scope,
            api=api,
            claims=request.claims,
            draw=request.fresh.access,
            lifetime=request.policy.lifetime_of(client, api),
            now=now,
            user=user,
            grant_id=read.grant_id,
            ends_at=read.expires_at,
            actors=actors,
            issued_token_type=ACCESS_TOKEN_TYPE,
        ),
        request.fingerprints,
    )
    values = (granted.token_id, GRANT_TYPE.name, str(scope), api.identifier)
    event = AccessTokenIssued(client.id, read.uid, read.grant_id, *values)
    tx.events.add(event, now)
    return granted


def _wants_assertion(request: TokenRequest) -> bool:
    return request.parameters.get("requested_token_type") == ID_JAG_TOKEN


def _find(tx: Transaction, request: TokenRequest, name: str) -> TokenState | Refusal:
    token = request.required(name)
    token_state = request.reader.find_for_any_api(tx, token, request.reads[name], request.now)
    if token_state is None or require_live(token_state.liveness, request.now) is not None:
        return _invalid(name, "a live access token of this server", "something else")
    return token_state


def _actors(
    tx: Transaction, request: TokenRequest, before: tuple[str, ...]
) -> tuple[str, ...] | Refusal:
    """Return the actors of the token, the latest first."""
    if ACTOR not in request.reads:
        return before
    token_state = _find(tx, request, ACTOR)
    if isinstance(token_state, Refusal):
        return token_state
    # Otherwise a client could act in the name of its callers.
    if token_state.read.client_id != request.client.id:
        return _invalid(f"{ACTOR}.client", "a token of the requesting client", "another client's")
    actors = (token_state.read.subject, *before)
    if len(actors) > MOST_ACTORS:
        return _invalid(f"{ACTOR}.chain", f"at most {MOST_ACTORS} actors", "more")
    return actors


def _target(tx: Transaction, request: TokenRequest, read: Read) -> tuple[Api, Scope] | Refusal:
    """Return the API of the new token, and the scope that the user allowed there.

    The API of the token presented, unless `resource` or `audience` names another.
    """
    named = with_audience(request.resources, request.parameters.get(AUDIENCE))
    if len(named) > 1:
        return too_many_targets(1)
    identifier = named[0] if named else read.audience
    apis = request.apis.requested_in(tx, [identifier], request.client)
    if isinstance(apis, Refusal):
        return apis
    if canonical(identifier) == canonical(read.audience):
        return apis[0], read.scope
    return _other_api(tx, request, read, apis[0])


def _other_api(
    tx: Transaction, request: TokenRequest, read: Read, api: Api
) -> tuple[Api, Scope] | Refusal:
    """Return an API other than that of the subject token, and the scope allowed there.

    A scope of one API says nothing about another: only what the user allowed the app at `api`
    itself counts, and of what is about the user, only what the token presented has. The client's
    registration must name the API. The app itself asks for a token of its grant instead, and a
    token that was exchanged is refused: an exchange there and back would undo a narrower scope.
    """
    mine = [canonical(identifier) for identifier in request.client.exchanges_for]
    if canonical(api.identifier) not in mine:
        return wrong_target(api.identifier, [read.audience, *mine])
    grant_state = tx.grants.find(read.grant_id or "")
    app = None if grant_state is None else tx.clients.find(grant_state.grant.client_id)
    if grant_state is None or app is None or app.id != read.client_id:
        return _invalid(
            f"{SUBJECT}.exchanged", "a token that the app itself got", "an exchanged one"
        )
    if app.id == request.client.id:
        return _invalid(f"{SUBJECT}.own", "a token of another app", "one of this app")
    granted_scope = still(grant_state.grant.scope, app)
    live = request.apis.granted(tx, apis_of(tx, request, grant_state.grant), app)
    chosen = choose([api.identifier], issuable(live, granted_scope, request.apis.default))
    if isinstance(chosen, Refusal):
        return chosen
    return api, at(api, granted_scope) - (_IDENTITY - read.scope)


def _invalid(check: str, expected: str, received: str) -> Refusal:
    """Return the refusal of a token; RFC 8693 section 2.2.2 has one code for all its errors."""
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"{check.partition('.')[0]} cannot be exchanged by this client",
        f"token_exchange.{check}",
        expected,
        received,
    )


GRANT_TYPE = GrantType(
    GrantTypeName.TOKEN_EXCHANGE.value,
    redeem,
    prepare,
    GrantTypeRules(needs_secret=True, editors=STAFF),
)
