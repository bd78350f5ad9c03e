"""A grant and its refresh tokens: creation of the family, and encoding of a refresh token."""

from collections.abc import Sequence

from valetkey.authorization.grant_types.grant_type import TokenRequest
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.model.register.api import Api, ApiGeneration
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import (
    Fingerprint,
    FingerprintKey,
    Prefix,
    Secret,
    is_tagged,
    tagged_secret,
    well_formed,
)


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
        audience=" ".join(each.identifier for each in apis),
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
    return key.of(f"refresh_token:{grant_id}", secret)


def _print(request: TokenRequest, grant_id: str) -> Fingerprint:
    secret = refresh_secret(request, grant_id)
    return fingerprint_of(request.fingerprints, secret.reveal(), grant_id)


def _tag_purpose(grant_id: str) -> str:
    return f"refresh_token.tag:{grant_id}"
