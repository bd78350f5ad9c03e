"""What a grant type is: a name, what it must draw and know first, and one plain transaction."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.issue import Draw, Granted, TokenPolicy
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, fresh_id
from valetkey.web.form import Form


class Fresh:
    """Everything random that a request may need, each drawn once, however often its work runs."""

    def __init__(self, access: Draw, random: Callable[[int], bytes]) -> None:
        """Draw the rest from `random` when somebody wants it: most requests do not."""
        self.access = access
        self.random = random

    @cached_property
    def refresh(self) -> bytes:
        """The random half of a new refresh token."""
        return self.random(16)

    @cached_property
    def grant_id(self) -> str:
        """The id of a new grant."""
        return fresh_id("gr", self.random)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token request whose client has proven who it is. `user` is who `prepare` found."""

    client: Client
    parameters: Form
    fresh: Fresh
    policy: TokenPolicy
    fingerprints: FingerprintKey
    address: str
    now: Instant
    user: User | None = None

    def the(self, name: str) -> str:
        """The parameter's value. Refused with `invalid_request` when it is missing or empty."""
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
        """The scope asked for; empty when none was."""
        return Scope.parse(self.parameters.get("scope") or "")


Redeem = Callable[[Transaction, TokenRequest], Granted | Refusal]
"""One transaction. A Refusal that is returned is written down; one that is raised never was."""

Prepare = Callable[[TokenRequest], Awaitable[TokenRequest]]
"""What must happen before the transaction because it takes long; may raise Refused."""


@dataclass(frozen=True, slots=True)
class GrantType:
    """One way to obtain tokens."""

    name: str
    redeem: Redeem
    prepare: Prepare | None = None


def outside_scope(expected: Scope, received: str = "other names") -> Refusal:
    """The refusal of a scope that is wider than what may be had."""
    return Refusal(
        ErrorCode.INVALID_SCOPE,
        "the scope names something that this client cannot have here",
        "scope.wider",
        str(expected),
        received,
    )


def wrong_target(request: TokenRequest) -> Refusal | None:
    """RFC 8707: a resource, if named, must be the API that tokens here are for."""
    resource = request.parameters.get("resource")
    if not resource or resource == request.policy.audience:
        return None
    return Refusal(
        ErrorCode.INVALID_TARGET,
        "tokens of this server are not for that resource",
        "resource.unknown",
        request.policy.audience,
        "another resource",
    )
