"""A grant and its refresh tokens: how a family begins and how its tokens are spelt."""

from valetkey.authorization.grant_types.grant_type import TokenRequest
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.grant import Grant
from valetkey.kernel.moment import Instant, later
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
) -> Grant:
    """The grant that this request begins, with a refresh token where the client may use one.

    Without one it lasts as long as its only access token.
    """
    policy, now, client = request.policy, request.now, request.client
    refreshes = client.may_use("refresh_token")
    expires_at = later(
        now, policy.refresh_token_lifetime if refreshes else policy.lifetime_of(client)
    )
    idle = min(later(now, policy.refresh_token_idle_lifetime), expires_at)
    return Grant(
        id=grant_id,
        client_id=client.id,
        uid=user.uid,
        session_id="",
        scope=scope,
        audience=policy.audience,
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


def first_refresh_token(request: TokenRequest, grant: Grant) -> Secret | None:
    """The refresh token of a grant just begun; None where it has none."""
    if grant.refresh_print is None:
        return None
    return spell(refresh_secret(request, grant.id), grant.id)


def refresh_secret(request: TokenRequest, grant_id: str) -> Secret:
    """Make the secret of the refresh token that this request issues; the same at every call.

    It carries a MAC over the grant id: grant ids are public, and `is_ours` must tell a token that
    this server issued from an invented one without having stored it.
    """
    return tagged_secret(
        Prefix.REFRESH_TOKEN, request.fresh.refresh, request.fingerprints, _tag_purpose(grant_id)
    )


def is_ours(key: FingerprintKey, secret: str, grant_id: str) -> bool:
    """Whether this server made that refresh token, whatever became of it since.

    False for tokens from before the MAC: only a stored fingerprint proves those.
    """
    return is_tagged(Prefix.REFRESH_TOKEN, secret, key, _tag_purpose(grant_id))


def spell(secret: Secret, grant_id: str) -> Secret:
    """`<secret>.<grant id>`: the id finds the grant and proves nothing."""
    return Secret(f"{secret.reveal()}.{grant_id}")


def take_apart(text: str) -> tuple[str, str] | None:
    """Secret and grant id of a refresh token; None unless it could be one."""
    secret, dot, grant_id = text.partition(".")
    if not dot or not grant_id.isascii() or not well_formed(Prefix.REFRESH_TOKEN, secret):
        return None
    return secret, grant_id


def fingerprint_of(key: FingerprintKey, secret: str, grant_id: str) -> Fingerprint:
    """What is stored of a refresh token; worth nothing in another grant's row."""
    return key.of(f"refresh_token:{grant_id}", secret)


def _print(request: TokenRequest, grant_id: str) -> Fingerprint:
    secret = refresh_secret(request, grant_id)
    return fingerprint_of(request.fingerprints, secret.reveal(), grant_id)


def _tag_purpose(grant_id: str) -> str:
    return f"refresh_token.tag:{grant_id}"
