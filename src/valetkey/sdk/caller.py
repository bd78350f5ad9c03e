"""Who is calling and what they may do."""

from dataclasses import dataclass

from valetkey.kernel.jose.access_token import Binding
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """The bearer of a live access token, as its issuer vouches for it.

    Being live is a matter of the moment: whoever keeps a caller asks `is_live` before each use.
    `bindings` are the keys that the caller proved to hold; a bearer token has none.
    """

    subject: str
    client_id: str
    scope: Scope
    token_id: str
    grant_id: str | None
    issued_at: Instant
    expires_at: Instant
    bindings: tuple[Binding, ...] = ()

    @property
    def user(self) -> str | None:
        """The user's `uid` in digits; None when the client calls for itself alone."""
        return None if self.subject == self.client_id else self.subject

    def allows(self, *names: str) -> bool:
        """Whether any of these scope names was granted."""
        granted = self.scope.names
        for name in names:  # noqa: SIM110 - a generator would cost more than all the rest
            if name in granted:
                return True
        return False

    def is_live(self, now: Instant) -> bool:
        """Whether the token has not expired."""
        return self.expires_at > now
