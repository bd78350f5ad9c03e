"""The interface of a grant type: a name, a preparation step and one transaction."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from valetkey.authorization.model.api import Api, ApiGeneration
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.register.client_rules import NO_RULES, GrantTypeRules
from valetkey.authorization.protocol.resource import (
    AUDIENCE,
    RESOURCE,
    choose,
    issuable,
    parse_requested,
    too_many_targets,
    with_audience,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.identity_assertion import (
    IdentityAssertion,
    IdentityAssertions,
    IssuedAssertion,
    SubjectIdToken,
)
from valetkey.authorization.tokens.issue import Granted, TokenPolicy, TokenSecrets
from valetkey.authorization.tokens.read import AccessTokenReader, Read
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, fresh_id
from valetkey.web.body import Form


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


class TokenRequest(Struct, frozen=True):
    """A token request of an authenticated client.

    `prepare` sets `user`, `id_token` and `assertion`, and `reads`: the verified JWTs among the
    tokens presented by the name of their parameter, None for a token of another form.
    """

    client: Client
    parameters: Form
    fresh: PreparedSecrets
    policy: TokenPolicy
    apis: ApiDirectory
    fingerprints: FingerprintKey
    address: str
    now: Instant
    reader: AccessTokenReader
    claims: TokenClaims
    assertions: IdentityAssertions | None = None
    user: User | None = None
    id_token: SubjectIdToken | None = None
    assertion: IdentityAssertion | None = None
    reads: Mapping[str, Read | None] = field(default_factory=dict[str, Read | None])

    @property
    def named_resources(self) -> Sequence[str]:
        """Return the values of the parameter `resource`."""
        return self.parameters.all(RESOURCE)

    @property
    def resources(self) -> Sequence[str]:
        """Return `named_resources`, with those of `audience` if the settings permit it."""
        named = self.named_resources
        if not self.apis.takes_audience:
            return named
        return with_audience(named, self.parameters.get(AUDIENCE))

    def required(self, name: str) -> str:
        """Return the parameter's value. Refused with `invalid_request` if it is missing."""
        value = self.parameters.get(name)
        if value is None:
            raise Refused.because(
                ErrorCode.INVALID_REQUEST,
                f"the parameter {name} is missing",
                f"parameter.{name}.missing",
                name,
                "nothing",
            )
        return value

    def wanted_scope(self) -> Scope:
        """Return the requested scope; empty if there was none."""
        return parse_requested(self.parameters.get("scope") or "")


Redeem = Callable[[Transaction, TokenRequest], Granted | IssuedAssertion | Refusal]
"""One transaction. A returned Refusal is committed; a raised one is rolled back."""

Authenticate = Callable[[str, str, str, Instant], Awaitable[User | Refusal]]
"""Authenticates a user by username and password from a client address, as the sign-in page does."""

Prepare = Callable[[TokenRequest, Authenticate], Awaitable[TokenRequest]]
"""Slow work before the transaction, such as password hashing; may raise Refused."""


class GrantType(Struct, frozen=True):
    """One grant type of the token endpoint, and what it requires of its clients."""

    name: str
    redeem: Redeem
    prepare: Prepare | None = None
    rules: GrantTypeRules = NO_RULES


def outside_scope(expected: Scope) -> Refusal:
    """Return the refusal of a scope wider than allowed."""
    return Refusal(
        ErrorCode.INVALID_SCOPE,
        "the scope names something that this client cannot have here",
        "scope.wider",
        str(expected),
        "other names",
    )


def target(tx: Transaction, request: TokenRequest) -> Api | Refusal:
    """Return the API that a request without an earlier grant names (RFC 8707 section 2).

    The default API if it names none; refused with `invalid_target` unless the client may ask for
    it. It cannot change until the transaction ends.
    """
    if len(request.resources) > 1:
        return too_many_targets(1)
    apis = request.apis.requested_in(tx, request.resources, request.client)
    return apis if isinstance(apis, Refusal) else apis[0]


def target_among(
    tx: Transaction, request: TokenRequest, apis: Sequence[ApiGeneration], granted: Scope
) -> Api | Refusal:
    """Return the API of a token from an earlier grant for `apis` (RFC 8707 section 2.2).

    The one that the request names, or the first for which anything was granted; refused with
    `invalid_target` for others and for those that ended since, and with `invalid_scope` where
    nothing of what was granted is left.
    """
    if not granted:
        return outside_scope(request.client.scope)
    live = request.apis.granted(tx, apis, request.client)
    return choose(request.resources, issuable(live, granted, request.apis.default))
