"""The transaction that answers an authorization request: judge it again, then issue.

Interactions and nonces are vouchers: an interaction yields at most one code.
"""

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import remember_consent
from valetkey.authorization.actions.registrations import note_sign_in
from valetkey.authorization.endpoints.authorize.checks import (
    ClientError,
    judge_again,
    redeem,
)
from valetkey.authorization.endpoints.authorize.pending import (
    Judgement,
    Pending,
    check_unanswered,
)
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.event.grants import (
    AccessTokenIssued,
    CodeIssued,
    ConsentDenied,
)
from valetkey.authorization.model.grant import Consent, Grant
from valetkey.authorization.model.register.api import generations
from valetkey.authorization.model.register.client import GrantTypeName
from valetkey.authorization.model.voucher import CodePayload, Voucher, VoucherKind
from valetkey.authorization.protocol.authorization_request import AuthorizationRequest
from valetkey.authorization.protocol.authorization_response import ResponseType
from valetkey.authorization.protocol.claims import ClaimsRequest, claims_of_scope
from valetkey.authorization.protocol.interaction import DENIED, Refuse, Respond, Step
from valetkey.authorization.protocol.resource import at, choose, issuable
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import SignInRecord
from valetkey.authorization.tokens.issue import Granted, Issuing, TokenSecrets, issue_access_token
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import Refusal, Refused
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret


class FlowSecrets:
    """The random values of an answer, generated once: a retried transaction uses the same."""

    def __init__(self, random: Callable[[int], bytes]) -> None:
        """Generate each value from `random` when it is first used."""
        self._random = random

    @cached_property
    def code(self) -> Secret:
        """The authorization code."""
        return fresh_secret(Prefix.CODE, self._random)

    @cached_property
    def grant_id(self) -> str:
        """The id of the grant that begins with the code."""
        return fresh_id("gr", self._random)

    @cached_property
    def consent_id(self) -> str:
        """The id of the consent, if it is the first."""
        return fresh_id("co", self._random)

    @cached_property
    def front_grant_id(self) -> str:
        """The id of the grant of tokens that are returned through the browser."""
        return fresh_id("gr", self._random)

    @cached_property
    def access(self) -> TokenSecrets:
        """The access token that is returned through the browser."""
        return TokenSecrets(self._random)


class Issued(Struct, frozen=True):
    """A granted request: the code, the access token's record, the content of the ID token.

    `session_id` is the session in which the client is a participant, "" for none.
    """

    authorization: AuthorizationRequest
    code: Secret | None = None
    granted: Granted | None = None
    identity: SignInRecord | None = None
    session_id: str = ""


Answer = Issued | ClientError | Step
"""The result of an authorization request; a Step means that the user must be asked again."""


async def answer(server: Server, pending: Pending, now: Instant) -> Answer:
    """Answer the request of `pending`, unless something it depends on has ended.

    Raises Refused for errors that must be shown to the user only.
    """
    secrets = FlowSecrets(server.random)
    try:
        outcome = await server.claims.supply(
            lambda: server.store.write(
                lambda tx: _answer(tx, server, pending, secrets, now), done_by=USUAL_ACTOR
            )
        )
    except Refused as refused:
        # Nothing was written: the request stays open, and the client receives the error.
        if refused.refusal.check not in {"claims.size", "claims.file", "resource.ended"}:
            raise
        return ClientError(pending.authorization, refused.refusal)
    if isinstance(outcome, Issued) and outcome.granted is not None:
        metrics.TOKENS.add(GrantTypeName.IMPLICIT.value, pending.client.type.value)
    return outcome


def _answer(
    tx: Transaction, server: Server, pending: Pending, secrets: FlowSecrets, now: Instant
) -> Answer:
    judged = judge_again(tx, server, pending, now)
    if isinstance(judged, ClientError):
        return judged
    authorization, step = judged.authorization, judged.step
    if isinstance(step, Refuse):
        check_unanswered(tx, judged)
        if step.refusal is DENIED:
            uid = None if pending.signed_in is None else pending.signed_in.user.uid
            tx.events.add(ConsentDenied(uid, authorization.client_id), now)
        return ClientError(authorization, step.refusal)
    if not isinstance(step, Respond):
        return step
    if refusal := redeem(tx, judged):
        return ClientError(authorization, refusal)
    consent_id = _consent(tx, judged, step, secrets)
    # A claim is given by a scope or by itself, and in both ways only where it was allowed.
    claims = authorization.claims.only(step.claims.union(claims_of_scope(step.scope)))
    client, signed_in, identity = judged.client, judged.signed_in, None
    if authorization.response_type.has_id_token:
        identity = SignInRecord(
            user=signed_in.user,
            client=client,
            auth_time=signed_in.session.auth_time,
            methods=signed_in.session.methods,
            sid=signed_in.session.id,
            nonce=authorization.nonce,
            claims=claims,
            scope=step.scope,
            # With another response type, the token endpoint and userinfo return these claims.
            with_scope_claims=authorization.response_type is ResponseType.ID_TOKEN,
        )
        identity = server.claims.of_identity(tx, identity)
    code = granted = None
    if authorization.response_type.has_code:
        code = _code(tx, judged, claims, consent_id, secrets)
    if authorization.response_type.has_token:
        granted = _grant(tx, judged, claims, secrets)
    # Last: users and sessions are locked before rate limits.
    note_sign_in(tx, client, now)
    session_id = signed_in.session.id if judged.is_openid else ""
    return Issued(authorization, code, granted, identity, session_id)


def _consent(tx: Transaction, judged: Judgement, step: Respond, secrets: FlowSecrets) -> str:
    """Return the id of the user's consent, "" for none; store it if the user was just asked."""
    before = None if judged.session is None else judged.session.consent
    if not step.asked:
        return "" if before is None else before.id
    uid, client, requested = judged.signed_in.user.uid, judged.client, judged.authorization
    consent = Consent(
        uid, client.id, step.scope, client.appearance, judged.now, step.claims, secrets.consent_id
    )
    return remember_consent(tx, before, consent, requested.scope, requested.single_claims)


def _code(
    tx: Transaction,
    judged: Judgement,
    claims: ClaimsRequest,
    consent_id: str,
    secrets: FlowSecrets,
) -> Secret:
    authorization, client, server = judged.authorization, judged.client, judged.server
    user, session, now = judged.signed_in.user, judged.signed_in.session, judged.now
    payload = CodePayload(
        uid=user.uid,
        scope=str(judged.scope),
        redirect_uri=authorization.returns.redirect_uri,
        redirect_uri_given=authorization.returns.given,
        code_challenge=authorization.code_challenge,
        nonce=authorization.nonce,
        session_id=session.id,
        auth_time=session.auth_time,
        methods=session.methods,
        claims=claims.encode(),
        client_generation=client.generation,
        user_generation=user.generation,
        consent_id=consent_id,
        apis=generations(authorization.apis),
    )
    tx.vouchers.issue(
        Voucher(
            kind=VoucherKind.CODE,
            fingerprint=server.keyring.fingerprint_key.of(CODE, secrets.code.reveal()),
            client_id=client.id,
            grant_id=secrets.grant_id,
            payload=payload.encode(),
            expires_at=later(now, server.policy.authorization_code_lifetime),
        )
    )
    pkce = bool(authorization.code_challenge)
    tx.events.add(CodeIssued(user.uid, client.id, secrets.grant_id, pkce=pkce), now)
    return secrets.code


def _grant(
    tx: Transaction, judged: Judgement, claims: ClaimsRequest, secrets: FlowSecrets
) -> Granted:
    """Issue one short-lived access token, without a refresh token (RFC 6749 section 4.2)."""
    client, server, now = judged.client, judged.server, judged.now
    user, session = judged.signed_in.user, judged.signed_in.session
    api = choose((), issuable(judged.authorization.apis, judged.scope, server.apis.default))
    if isinstance(api, Refusal):
        # None of the allowed scopes is left at any of the APIs.
        raise Refused(api)
    scope, policy = at(api, judged.scope), server.policy
    lifetime = min(policy.lifetime_of(client, api), policy.implicit_token_lifetime)
    grant = Grant(
        id=secrets.front_grant_id,
        client_id=client.id,
        uid=user.uid,
        session_id=session.id if client.ends_with_session else "",
        scope=judged.scope,
        audience=api.identifier,
        grant_type=GrantTypeName.IMPLICIT.value,
        auth_time=session.auth_time,
        created_at=now,
        last_used_at=now,
        expires_at=later(now, lifetime),
        sid=session.id,
        methods=session.methods,
        claims=claims.encode(),
        client_generation=client.generation,
        user_generation=user.generation,
    )
    tx.grants.issue(grant, generations((api,)))
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=scope,
            api=api,
            claims=server.claims,
            draw=secrets.access,
            lifetime=lifetime,
            now=now,
            user=user,
            grant_id=grant.id,
            auth_time=grant.auth_time,
            ends_at=grant.expires_at,
        ),
        server.keyring.fingerprint_key,
    )
    issued = (granted.token_id, grant.grant_type, str(scope), api.identifier)
    tx.events.add(AccessTokenIssued(client.id, user.uid, grant.id, *issued), now)
    return granted
