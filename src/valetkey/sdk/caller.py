"""Caller: the bearer of a token and its permissions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from valetkey.kernel.jose.access_token import Binding
from valetkey.kernel.moment import Instant, is_live
from valetkey.kernel.scope import Scope

_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Caller:
    """The bearer of a live access token, as its issuer describes it.

    Tokens expire: code that keeps a caller checks `is_live` before each use. `bindings` are the
    keys that the caller proved to hold; a bearer token has none. `claims` are the token's other
    claims, as the issuer's operator declared them.
    """

    subject: str
    client_id: str
    scope: Scope
    token_id: str
    grant_id: str | None
    issued_at: Instant
    expires_at: Instant
    bindings: tuple[Binding, ...] = ()
    claims: Mapping[str, object] = field(default_factory=lambda: _NO_CLAIMS, hash=False)

    @property
    def user(self) -> str | None:
        """Return the user's `uid` in digits; None if the client acts on its own behalf."""
        return None if self.subject == self.client_id else self.subject

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the caller's roles at this API, from the `roles` claim (RFC 9068 section 2.2.3).

        None of them if the claim is missing or is no list of strings.
        """
        listed = self.claims.get("roles")
        roles = cast("list[object]", listed) if isinstance(listed, list) else []
        names = tuple(role for role in roles if isinstance(role, str))
        return names if len(names) == len(roles) else ()

    def allows(self, *names: str) -> bool:
        """Return whether any of these scope names was granted."""
        granted = self.scope.names
        for name in names:  # noqa: SIM110 - a generator would cost more than all the rest
            if name in granted:
                return True
        return False

    def is_live(self, now: Instant) -> bool:
        """Return whether the token has not expired and was not issued in the future."""
        return is_live(self.issued_at, self.expires_at, now)
