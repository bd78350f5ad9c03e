"""What a grant type consists of: a name, a preparation step and one transaction."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.register.grant_types import NO_RULES, GrantTypeRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Granted, TokenPolicy, TokenSecrets
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, fresh_id
from valetkey.web.form import Form


class PreparedSecrets:
    """The random values of one request, each generated once even if its transaction is retried."""

    def __init__(self, access: TokenSecrets, random: Callable[[int], bytes]) -> None:
        """Generate the other values from `random` on first use: most requests need none."""
        self.access = access
        self.random = random

    @cached_property
    def refresh(self) -> bytes:
        """Return the random half of a new refresh token."""
        return self.random(16)

    @cached_property
    def grant_id(self) -> str:
        """Return the id of a new grant."""
        return fresh_id("gr", self.random)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token request of an authenticated client. `user` is set by `prepare`."""

    client: Client
    parameters: Form
    fresh: PreparedSecrets
    policy: TokenPolicy
    fingerprints: FingerprintKey
    address: str
    now: Instant
    user: User | None = None

    def the(self, name: str) -> str:
        """Return the parameter's value. Refused with `invalid_request` if missing or empty."""
        value = self.parameters.get(name)
        if not value:
            raise Refused(
                Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"the parameter {name} is missing",
                    f"parameter.{name}.missing",
                    name,
                    "nothing",
                )
            )
        return value

    def wanted_scope(self) -> Scope:
        """Return the requested scope; empty if there was none."""
        return Scope.parse(self.parameters.get("scope") or "")


Redeem = Callable[[Transaction, TokenRequest], Granted | Refusal]
"""One transaction. A returned Refusal is committed; a raised one is rolled back."""

Authenticate = Callable[[str, str, str, Instant], Awaitable[User | Refusal]]
"""Authenticates a user by username and password from a client address, as the sign-in page does."""

Prepare = Callable[[TokenRequest, Authenticate], Awaitable[TokenRequest]]
"""Slow work before the transaction, such as password hashing; may raise Refused."""


@dataclass(frozen=True, slots=True)
class GrantType:
    """One grant type of the token endpoint, and what it requires of its clients."""

    name: str
    redeem: Redeem
    prepare: Prepare | None = None
    rules: GrantTypeRules = NO_RULES


def outside_scope(expected: Scope, received: str = "other names") -> Refusal:
    """Return the refusal of a scope wider than allowed."""
    return Refusal(
        ErrorCode.INVALID_SCOPE,
        "the scope names something that this client cannot have here",
        "scope.wider",
        str(expected),
        received,
    )


def wrong_target(request: TokenRequest) -> Refusal | None:
    """Refuse a `resource` other than the API that tokens are issued for (RFC 8707)."""
    return unknown_target(request.parameters, request.policy)


def unknown_target(parameters: Form, policy: TokenPolicy) -> Refusal | None:
    """Judge the `resource` of a request that issues no token yet in the same way."""
    resource = parameters.get("resource")
    if not resource or resource == policy.audience:
        return None
    return Refusal(
        ErrorCode.INVALID_TARGET,
        "tokens of this server are not for that resource",
        "resource.unknown",
        policy.audience,
        "another resource",
    )
