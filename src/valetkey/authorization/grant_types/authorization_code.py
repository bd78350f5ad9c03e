"""The authorization code grant (RFC 6749 section 4.1.3, RFC 7636 section 4.5)."""

from valetkey.authorization.grant_types.grant_type import (
    GrantType,
    TokenRequest,
    outside_scope,
    target_among,
)
from valetkey.authorization.grant_types.refresh_token import (
    begin,
    first_refresh_token,
    not_admitted,
)
from valetkey.authorization.model.api import Api, generations
from valetkey.authorization.model.client import GrantTypeName
from valetkey.authorization.model.event.grants import (
    CodeRedeemed,
    CodeReplayed,
    CodeSpoiled,
    GrantRevoked,
)
from valetkey.authorization.model.grant import (
    CodePayload,
    Liveness,
    Voucher,
    VoucherKind,
    require_live,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol import authorization_request
from valetkey.authorization.protocol.claims import OFFLINE_ACCESS, ClaimsRequest
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.protocol.resource import at, covers, still
from valetkey.authorization.storage.sessions import SessionAndUser
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import SignInRecord
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix, well_formed

CODE = "code"
"""The purpose under which codes are fingerprinted."""


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Redeem an authorization code.

    The client is checked before the code is spent, so another client cannot burn it. A wrong
    verifier or redirect URI from the right client spends it. A second redemption ends the grant of
    the first (RFC 9700 section 4.5).
    """
    text = request.required(CODE)
    if not well_formed(Prefix.CODE, text):
        return _unknown("malformed")
    voucher = tx.vouchers.find(VoucherKind.CODE, request.fingerprints.fingerprint(CODE, text))
    if voucher is None:
        return _unknown("unknown")
    if voucher.client_id != request.client.id:
        return _unknown("another client's")
    code = CodePayload.decode(voucher.payload)
    tx.users.hold(code.uid)
    lifetime = request.policy.authorization_code_lifetime
    if voucher.redeemed_at is None and voucher.has_expired(lifetime, request.now):
        return _expired(voucher, lifetime, request.now)
    if voucher.redeemed_at is not None or not tx.vouchers.redeem(voucher, request.now):
        return _spent(tx, voucher, request.now)
    scope = still(code.granted, request.client)
    api = target_among(tx, request, code.apis, scope)
    presence = tx.presences.find_by_id(code.session_id, request.client.id)
    # A session that was deleted has ended; a disabled account is reported first.
    user = tx.users.find(code.uid) if presence is None else presence.user
    problem = _judge(code, request) or still_allowed(tx, code, request, presence, user)
    if problem or user is None or isinstance(api, Refusal):
        refusal = problem or (api if isinstance(api, Refusal) else _unknown("without user"))
        tx.events.add(CodeSpoiled(voucher.client_id, voucher.grant_id, refusal.check), request.now)
        return refusal
    granted = begin_grant(tx, request, voucher.grant_id, code, user, api)
    values = (granted.token_id, str(granted.scope), granted.api.identifier)
    event = CodeRedeemed(user.uid, voucher.client_id, voucher.grant_id, *values)
    tx.events.add(event, request.now)
    return granted


def begin_grant(
    tx: Transaction,
    request: TokenRequest,
    grant_id: str,
    code: CodePayload,
    user: User,
    api: Api,
) -> Granted:
    """Create the grant that the user allowed, with its first tokens, which are for `api`."""
    granted_scope = still(code.granted, request.client)
    apis = request.apis.granted(tx, code.apis, request.client)
    grant = begin(
        request,
        user,
        granted_scope,
        grant_id=grant_id,
        auth_time=code.auth_time,
        api=api,
        apis=apis,
    )
    scope = at(api, granted_scope)
    grant = replace(grant, sid=code.session_id, methods=code.methods, claims=code.claims)
    # Consent to offline access covers use after sign-out (OpenID Connect Core section 11).
    if request.client.ends_with_session and OFFLINE_ACCESS not in scope:
        grant = replace(grant, session_id=code.session_id)
    tx.grants.issue(grant, generations(apis))
    identity = SignInRecord(
        user=user,
        client=request.client,
        auth_time=code.auth_time,
        methods=code.methods,
        sid=code.session_id,
        nonce=code.nonce,
        claims=ClaimsRequest.parse(code.claims),
        scope=scope,
        with_scope_claims=request.client.has_scope_claims_in_id_token,
    )
    return issue_access_token(
        tx,
        Issuing(
            client=request.client,
            scope=scope,
            api=api,
            claims=request.claims,
            draw=request.fresh.access,
            lifetime=request.policy.lifetime_of(request.client, api),
            now=request.now,
            user=user,
            grant_id=grant.id,
            auth_time=code.auth_time,
            ends_at=grant.expires_at,
            refresh_token=first_refresh_token(request, grant),
            identity=identity,
        ),
        request.fingerprints,
    )


def _judge(code: CodePayload, request: TokenRequest) -> Refusal | None:
    redirect_uri = request.parameters.get("redirect_uri")
    if (redirect_uri is not None or code.redirect_uri_given) and redirect_uri != code.redirect_uri:
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "redirect_uri is not the one that the authorization request named",
            "code.redirect_uri",
            code.redirect_uri,
            "nothing" if redirect_uri is None else "another redirect URI",
        )
    return _judge_verifier(code, request.parameters.get("code_verifier"))


def _judge_verifier(code: CodePayload, verifier: str | None) -> Refusal | None:
    expected = "the verifier of the code challenge" if code.code_challenge else "no code_verifier"
    if not code.code_challenge and verifier is None:
        return None
    # A verifier without a challenge indicates a PKCE downgrade attack (RFC 9700 section 4.8.2).
    if (
        code.code_challenge
        and verifier is not None
        and authorization_request.matches(code.code_challenge, verifier)
    ):
        return None
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "code_verifier does not match the code_challenge of the authorization request",
        "code.verifier",
        expected,
        "nothing" if verifier is None else "another verifier",
    )


def still_allowed(
    tx: Transaction,
    code: CodePayload,
    request: TokenRequest,
    presence: SessionAndUser | None,
    user: User | None,
) -> Refusal | None:
    """Refuse a code whose client, user, session or consent ended since the user allowed it."""
    client, session = request.client, None if presence is None else presence.session
    liveness = Liveness(
        client_disabled=client.disabled_at is not None,
        user_disabled=user is None or user.disabled_at is not None,
        grant_revoked=code.client_generation != client.generation
        or (user is not None and code.user_generation != user.generation),
        session_ended=session is None or session.ended_at is not None,
        session_ends_at=None if session is None else session.expires_at,
    )
    if problem := require_live(liveness, request.now):
        return problem
    scope = code.granted
    if not still(scope, client):
        return outside_scope(client.scope)
    consent = None if presence is None else presence.consent
    if consent is not None and consent.id == code.consent_id and covers(consent.scope, scope):
        return not_admitted(tx, client, code.uid)
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the user no longer allows what this code was issued for",
        "code.consent",
        code.scope,
        "" if consent is None else str(consent.scope),
    )


def _expired(voucher: Voucher, lifetime: Lifetime, now: Instant) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the code has expired",
        "code.expired",
        f"from {voucher.expires_at - lifetime} to {voucher.expires_at}",
        f"at {now}",
    )


def _spent(tx: Transaction, voucher: Voucher, now: Instant) -> Refusal:
    grant_state = tx.grants.find(voucher.grant_id)
    # Written once: further replays change nothing and must not fill the log.
    if grant_state is not None and tx.grants.revoke(voucher.grant_id, now, "code_replayed"):
        grant = grant_state.grant
        tx.events.add(CodeReplayed(voucher.client_id, voucher.grant_id), now)
        tx.events.add(GrantRevoked(grant.uid, grant.client_id, grant.id, "code_replayed"), now)
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the code was already used; what it gave has been revoked",
        "code.replayed",
        "a code not used before",
        "a used code",
    )


def _unknown(received: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the code is unknown or belongs to another client",
        "code.unknown",
        "a code issued to this client",
        received,
    )


GRANT_TYPE = GrantType(
    GrantTypeName.AUTHORIZATION_CODE.value,
    redeem,
    rules=GrantTypeRules(needs_redirect_uri=True, issues_refresh_tokens=True),
)
