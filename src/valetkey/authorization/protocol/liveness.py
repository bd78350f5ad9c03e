"""Liveness: nothing works once its client, user, grant or session has ended."""

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Liveness
from valetkey.authorization.model.user import User
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal


def require_live(liveness: Liveness, now: Instant) -> Refusal | None:
    """Return None if everything behind a code, grant or token is live, otherwise the refusal.

    Every path that issues, exchanges, introspects or answers calls this.
    """
    ended = liveness.ended(now)
    if not ended:
        return None
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the authorization has ended: it expired, was revoked, or its account or app is closed",
        f"live.{ended}",
        "everything behind it to be live",
        ended,
    )


def liveness_of(client: Client, user: User | None = None) -> Liveness:
    """Return the liveness of a client and a user that have no grant yet."""
    return Liveness(
        client_disabled=client.disabled_at is not None,
        user_disabled=user is not None and user.disabled_at is not None,
    )
