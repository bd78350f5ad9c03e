"""Refresh tokens (RFC 6749 section 6, RFC 9700 4.14), and the grant that is their family."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.grant_types.grant_type import (
    GrantType,
    TokenRequest,
    outside_scope,
    target_among,
)
from valetkey.authorization.model.api import Api, ApiGeneration
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.event.grants import (
    GrantRevoked,
    RefreshTokenRepeated,
    RefreshTokenReused,
    RefreshTokenUsed,
)
from valetkey.authorization.model.grant import Grant, require_live
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import ClaimsRequest
from valetkey.authorization.protocol.register.client_rules import GrantTypeRules
from valetkey.authorization.protocol.resource import at, still
from valetkey.authorization.storage.grants import GrantWithState, Previous, Rotation
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import SignInRecord
from valetkey.authorization.tokens.issue import Granted, Issuing, issue_access_token
from valetkey.kernel.keyring import open_with, seal_with
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import (
    Fingerprint,
    FingerprintKey,
    Prefix,
    Secret,
    is_tagged,
    same,
    tagged_secret,
    well_formed,
)
from valetkey.kernel.text import translatable


def begin(
    request: TokenRequest,
    user: User,
    scope: Scope,
    *,
    grant_id: str,
    auth_time: Instant,
    api: Api,
    apis: Sequence[Api],
    refreshes: bool = True,
) -> Grant:
    """Create the grant of this request for `apis`, with a refresh token if the client may use one.

    Without one, or unless it `refreshes`, the grant expires with its only access token, which is
    for `api`.
    """
    policy, now, client = request.policy, request.now, request.client
    refreshes = refreshes and client.may_use("refresh_token")
    expires_at = later(
        now, policy.refresh_token_lifetime if refreshes else policy.lifetime_of(client, api)
    )
    idle = min(later(now, policy.refresh_token_idle_lifetime), expires_at)
    return Grant(
        id=grant_id,
        client_id=client.id,
        uid=user.uid,
        session_id="",
        scope=scope,
        audience=" ".join(granted_api.identifier for granted_api in apis),
        grant_type=request.parameters.get("grant_type") or "",
        auth_time=auth_time,
        created_at=now,
        last_used_at=now,
        expires_at=expires_at,
        refresh_print=_print(request, grant_id) if refreshes else None,
        refresh_expires_at=idle if refreshes else None,
        generation=1 if refreshes else 0,
        client_generation=client.generation,
        user_generation=user.generation,
    )


def apis_of(tx: Transaction, request: TokenRequest, grant: Grant) -> Sequence[ApiGeneration]:
    """Return the APIs of a grant; empty for the default API alone."""
    # Most grants are for the default API alone, and have no rows to read.
    if grant.audience == request.apis.default.identifier:
        return ()
    return tx.apis.granted(grant.id)


def not_admitted(tx: Transaction, client: Client, uid: Uid) -> Refusal | None:
    """Refuse a user who is in none of the client's required groups."""
    required = client.openid.required_groups
    if tx.groups.admits(uid, required):
        return None
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the user is in none of the groups that may use this app",
        "grant.groups",
        " or ".join(required),
        "a user in none of them",
    )


def first_refresh_token(request: TokenRequest, grant: Grant) -> Secret | None:
    """Return the first refresh token of a new grant, or None if it has none."""
    if grant.refresh_print is None:
        return None
    return format_refresh_token(refresh_secret(request, grant.id), grant.id)


def refresh_secret(request: TokenRequest, grant_id: str) -> Secret:
    """Derive the secret of the refresh token that this request issues; the same at every call.

    It contains a MAC over the grant id. Grant ids are public, so `was_issued_here` needs the MAC to
    tell an issued token from an invented one without a lookup.
    """
    return tagged_secret(
        Prefix.REFRESH_TOKEN, request.fresh.refresh, request.fingerprints, _tag_purpose(grant_id)
    )


def was_issued_here(key: FingerprintKey, secret: str, grant_id: str) -> bool:
    """Return whether this server issued the refresh token, even if it is no longer valid.

    False for tokens issued before the MAC was added: for those only a stored fingerprint is proof.
    """
    return is_tagged(Prefix.REFRESH_TOKEN, secret, key, _tag_purpose(grant_id))


def format_refresh_token(secret: Secret, grant_id: str) -> Secret:
    """Return `<secret>.<grant id>`. The grant id locates the grant and proves nothing."""
    return Secret(f"{secret.reveal()}.{grant_id}")


def parse_refresh_token(text: str) -> tuple[str, str] | None:
    """Split a refresh token into secret and grant id; None if it is malformed."""
    secret, dot, grant_id = text.partition(".")
    if not dot or not grant_id.isascii() or not well_formed(Prefix.REFRESH_TOKEN, secret):
        return None
    return secret, grant_id


def fingerprint_of(key: FingerprintKey, secret: str, grant_id: str) -> Fingerprint:
    """Return the stored form of a refresh token, bound to its grant."""
    return key.fingerprint(f"refresh_token:{grant_id}", secret)


def _print(request: TokenRequest, grant_id: str) -> Fingerprint:
    secret = refresh_secret(request, grant_id)
    return fingerprint_of(request.fingerprints, secret.reveal(), grant_id)


def _tag_purpose(grant_id: str) -> str:
    return f"refresh_token.tag:{grant_id}"


class _Wanted(Struct, frozen=True):
    """The API and the scope of the new access token."""

    api: Api
    scope: Scope

    @property
    def qualified(self) -> Scope:
        """Return the scope with the API in its names; its name alone where there are none."""
        return Scope(tuple(map(self.api.qualified, self.scope)) or (self.api.access,))


class _Presented(Struct, frozen=True):
    """A presented refresh token: its text, its stored form, the grant it names and its APIs."""

    text: str
    fingerprint: Fingerprint
    grant_state: GrantWithState
    user: User
    apis: Sequence[ApiGeneration]
    is_current: bool


def redeem(tx: Transaction, request: TokenRequest) -> Granted | Refusal:
    """Exchange the current token; answer a retry with the same successor; revoke on reuse.

    Refresh tokens of public clients rotate. Those of confidential clients are bound by client
    authentication and stay the same unless the client registered for rotation (RFC 9700 section
    4.14.2).
    """
    text = request.required("refresh_token")
    parts = parse_refresh_token(text)
    presented = None if parts is None else _find(tx, request, text, *parts)
    if presented is None:
        return _unknown()
    grant_state, grant = presented.grant_state, presented.grant_state.grant
    live = require_live(grant_state.liveness, request.now)
    if problem := live or not_admitted(tx, request.client, grant.uid):
        return problem
    # There was no consent page: the grant lasts only while an administrator permits it.
    if grant.grant_type == GrantTypeName.PASSWORD and not request.client.may_use(grant.grant_type):
        return _switched_off(grant)
    # The client's registered scope may have shrunk since.
    granted_scope = still(grant.scope, request.client)
    api = target_among(tx, request, presented.apis, granted_scope)
    if isinstance(api, Refusal):
        return api
    allowed = at(api, granted_scope)
    scope = request.wanted_scope() or allowed
    # Empty where the user allowed the API without a scope.
    if not scope <= allowed:
        return outside_scope(allowed)
    wish = _Wanted(api, scope)
    if not presented.is_current:
        return _not_current(tx, request, presented, wish)
    if grant.refresh_expires_at is None or grant.refresh_expires_at <= request.now:
        return _idle(grant)
    return _use(tx, request, presented, wish)


def _find(
    tx: Transaction, request: TokenRequest, text: str, secret: str, grant_id: str
) -> _Presented | None:
    """Return the client's grant that the token is or was of; None if it never was one."""
    looked_at = tx.grants.find_with_user(grant_id)
    if looked_at is None:
        return None
    grant_state, user, apis = looked_at
    grant = grant_state.grant
    if grant.client_id != request.client.id or grant.refresh_print is None:
        return None
    fingerprint = fingerprint_of(request.fingerprints, secret, grant_id)
    is_current = same(fingerprint, grant.refresh_print)
    # A grant id is public. Knowing only that must neither reveal nor end the grant.
    if not is_current and not (
        _was_previous(grant_state, fingerprint)
        or was_issued_here(request.fingerprints, secret, grant_id)
    ):
        return None
    return _Presented(text, fingerprint, grant_state, user, apis, is_current)


def _use(
    tx: Transaction, request: TokenRequest, presented: _Presented, wish: _Wanted
) -> Granted | Refusal:
    grant, now = presented.grant_state.grant, request.now
    until = min(later(now, request.policy.refresh_token_idle_lifetime), grant.expires_at)
    rotates = request.client.is_public or request.client.rotates_refresh_token
    if rotates:
        secret = refresh_secret(request, grant.id)
        successor = format_refresh_token(secret, grant.id)
        rotation = Rotation(
            grant_id=grant.id,
            presented=presented.fingerprint,
            successor=fingerprint_of(request.fingerprints, secret.reveal(), grant.id),
            sealed=seal_with(
                presented.text,
                f"{wish.qualified}\n{successor.reveal()}".encode(),
                _place(grant),
                request.fresh.random,
            ),
            expires_at=until,
        )
        won = tx.grants.rotate(rotation, now)
    else:
        successor = Secret(presented.text)
        won = tx.grants.use(grant.id, presented.fingerprint, until, now)
    if not won:
        return _lost(tx, request, presented, wish)
    granted = _grant_again(tx, request, presented, wish, successor)
    values = (granted.token_id, rotates, str(granted.scope), granted.api.identifier)
    event = RefreshTokenUsed(grant.uid, grant.client_id, grant.id, *values)
    tx.events.add(event, now)
    return granted


def _lost(
    tx: Transaction, request: TokenRequest, presented: _Presented, wish: _Wanted
) -> Granted | Refusal:
    # A concurrent transaction rotated it first; read again, the token is now the previous one.
    grant_state = tx.grants.find(presented.grant_state.grant.id)
    if grant_state is None:
        return _unknown()
    if problem := require_live(grant_state.liveness, request.now):
        return problem
    return _not_current(tx, request, replace(presented, grant_state=grant_state), wish)


def _not_current(
    tx: Transaction, request: TokenRequest, presented: _Presented, wish: _Wanted
) -> Granted | Refusal:
    grant, previous, now = presented.grant_state.grant, presented.grant_state.previous, request.now
    if (
        previous is not None
        and _was_previous(presented.grant_state, presented.fingerprint)
        and now < _repeatable_until(request, grant, previous)
    ):
        opened = open_with(presented.text, previous.sealed, _place(grant))
        if opened is not None:
            return _repeat(tx, request, presented, wish, opened.decode())
    if tx.grants.revoke(grant.id, now, "refresh_token_reused"):
        tx.events.add(RefreshTokenReused(grant.client_id, grant.id), now)
        event = GrantRevoked(grant.uid, grant.client_id, grant.id, "refresh_token_reused")
        tx.events.add(event, now)
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the refresh token was replaced before; the whole authorization has been ended",
        "refresh_token.reused",
        "the current refresh token",
        f"one of an earlier generation than {grant.generation}",
    )


def _repeatable_until(request: TokenRequest, grant: Grant, previous: Previous) -> Instant:
    """Return the time until which the token before the current one is answered again.

    The current one was never used: then it would have a successor itself. A client that
    authenticated has lost the response, so it is answered until the successor expires. A public
    client may be anyone who has the token (docs/decisions/0049-lost-refresh-responses.md).
    """
    if request.client.is_public:
        return later(previous.rotated_at, request.policy.refresh_reuse_window)
    return grant.refresh_expires_at or previous.rotated_at


def _was_previous(grant_state: GrantWithState, fingerprint: Fingerprint) -> bool:
    return grant_state.previous is not None and same(grant_state.previous.fingerprint, fingerprint)


def _repeat(
    tx: Transaction, request: TokenRequest, presented: _Presented, wish: _Wanted, opened: str
) -> Granted | Refusal:
    first_scope, _, successor = opened.partition("\n")
    if wish.qualified != Scope(tuple(first_scope.split(" "))):
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "the refresh token was just used with another scope or resource",
            "refresh_token.repeated_scope",
            first_scope,
            str(wish.qualified),
        )
    grant = presented.grant_state.grant
    granted = _grant_again(tx, request, presented, wish, Secret(successor))
    values = (granted.token_id, granted.api.identifier)
    event = RefreshTokenRepeated(grant.client_id, grant.id, *values)
    tx.events.add(event, request.now)
    return granted


def _grant_again(
    tx: Transaction,
    request: TokenRequest,
    presented: _Presented,
    wish: _Wanted,
    refresh_token: Secret,
) -> Granted:
    grant = presented.grant_state.grant
    return issue_access_token(
        tx,
        Issuing(
            client=request.client,
            scope=wish.scope,
            api=wish.api,
            claims=request.claims,
            draw=request.fresh.access,
            lifetime=request.policy.lifetime_of(request.client, wish.api),
            now=request.now,
            user=presented.user,
            grant_id=grant.id,
            auth_time=grant.auth_time,
            ends_at=grant.expires_at,
            refresh_token=refresh_token,
            identity=_identity(request, presented, wish),
        ),
        request.fingerprints,
    )


def _identity(request: TokenRequest, presented: _Presented, wish: _Wanted) -> SignInRecord | None:
    """Return the sign-in that began the grant (OpenID Connect Core section 12.2).

    None for a password that the app itself collected: that is not a sign-in here.
    """
    grant = presented.grant_state.grant
    if grant.grant_type == GrantTypeName.PASSWORD:
        return None
    return SignInRecord(
        user=presented.user,
        client=request.client,
        auth_time=grant.auth_time,
        methods=grant.methods,
        sid=grant.sid,
        claims=ClaimsRequest.parse(grant.claims),
        scope=wish.scope,
        with_scope_claims=request.client.has_scope_claims_in_id_token,
    )


def _place(grant: Grant) -> str:
    return f"grants.successor:{grant.id}"


def _idle(grant: Grant) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the refresh token expired: it was unused for too long",
        "refresh_token.idle",
        f"before {grant.refresh_expires_at}",
        "later",
    )


def _switched_off(grant: Grant) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "this authorization was given by a grant type that the client can no longer use",
        "refresh_token.grant_type",
        "an enabled grant type",
        grant.grant_type,
    )


def _unknown() -> Refusal:
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the refresh token is unknown, has ended, or belongs to another client",
        "refresh_token.unknown",
        "a refresh token issued to this client",
        "something else",
    )


GRANT_TYPE = GrantType(
    GrantTypeName.REFRESH_TOKEN.value,
    redeem,
    rules=GrantTypeRules(
        label=translatable(
            "Refresh tokens: the app stays connected; users do not have to sign in again every hour"
        )
    ),
)
