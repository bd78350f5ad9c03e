"""Consent: permissions that a user need not be asked for again, per client."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


@dataclass(frozen=True, slots=True)
class Consent:
    """What was allowed, and the client's appearance at that time; `claims` are individual ones."""

    uid: Uid
    client_id: str
    scope: Scope
    appearance: str
    given_at: Instant
    claims: frozenset[str] = frozenset()
    id: str = ""
    """A new one when consent is given again after it had ended."""
