"""Issue access tokens, record them where required, and make token responses (RFC 6749 5.1)."""

from collections.abc import Callable, Sequence
from functools import cached_property

from msgspec import Struct

from valetkey.authorization.model.api import NO_CLAIMS, Api, Claims
from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    AccessTokenFormat,
    Client,
    GrantTypeName,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.metadata import ID_JAG_TOKEN
from valetkey.authorization.storage.tokens import ReferenceToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.claims import TokenClaims, encoded
from valetkey.authorization.tokens.client_keys import default_id_token_algorithm
from valetkey.authorization.tokens.id_token import IdTokens, SignInRecord
from valetkey.authorization.tokens.identity_assertion import TYPE, IssuedAssertion
from valetkey.authorization.tokens.signing_keys import ALGORITHM, SigningKeyRing
from valetkey.config.settings import Settings
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, Prefix, Secret, fresh_id, fresh_secret

ACCESS_TOKEN = "access_token"
"""The purpose under which reference tokens are fingerprinted."""


class TokenPolicy(Struct, frozen=True):
    """Token lifetimes and the default API's identifier, as configured.

    `own_scope` contains the scopes that belong to clients themselves and that no user can grant.
    """

    audience: str
    authorization_code_lifetime: Lifetime
    access_token_lifetime: Lifetime
    implicit_token_lifetime: Lifetime
    refresh_token_idle_lifetime: Lifetime
    refresh_token_lifetime: Lifetime
    refresh_reuse_window: Lifetime
    own_scope: Scope = CLIENT_SCOPE

    @classmethod
    def of(cls, settings: Settings, own_scope: Scope = CLIENT_SCOPE) -> "TokenPolicy":
        """Return the policy of the settings."""
        tokens = settings.tokens
        return cls(
            audience=settings.audience,
            authorization_code_lifetime=tokens.authorization_code_lifetime,
            access_token_lifetime=tokens.access_token_lifetime,
            implicit_token_lifetime=min(
                tokens.implicit_token_lifetime, tokens.access_token_lifetime
            ),
            refresh_token_idle_lifetime=tokens.refresh_token_idle_lifetime,
            refresh_token_lifetime=tokens.refresh_token_lifetime,
            refresh_reuse_window=tokens.refresh_reuse_window,
            own_scope=own_scope,
        )

    def lifetime_of(self, client: Client, api: Api | None = None) -> Lifetime:
        """Return the lifetime of this client's access tokens, None being the default API.

        That of a declared API is the API's, or the client's own where that is shorter.
        """
        own = client.access_token_lifetime
        if api is None or api.access_token_lifetime is None:
            return own or self.access_token_lifetime
        return min(own or api.access_token_lifetime, api.access_token_lifetime)

    def grant_lifetime(self, client: Client, apis: Sequence[Api]) -> Lifetime:
        """Return how long a client that a user allows these APIs has access at most."""
        if client.may_use(GrantTypeName.REFRESH_TOKEN):
            return self.refresh_token_lifetime
        return max(self.lifetime_of(client, api) for api in apis)


class Granted(Struct, frozen=True):
    """A granted token request: everything the response says, before signing.

    `claims` are those of the access token beyond the protocol's.
    `user` and `grant_id` are None for a client's own access. `reference` is the token itself if it
    is a reference token, `identity` is the content of the ID token. `actors` and
    `issued_token_type` are those of a token exchange.
    """

    client: Client
    api: Api
    scope: Scope
    token_id: str
    issued_at: Instant
    expires_at: Instant
    user: User | None = None
    grant_id: str | None = None
    auth_time: Instant | None = None
    reference: Secret | None = None
    refresh_token: Secret | None = None
    identity: SignInRecord | None = None
    actors: tuple[str, ...] = ()
    issued_token_type: str = ""
    claims: Claims = NO_CLAIMS


class TokenSecrets:
    """The random values of one access token, each generated once if its transaction is retried."""

    def __init__(self, random: Callable[[int], bytes]) -> None:
        """Generate the token's id from `random` now, and the rest when it is needed."""
        self.token_id = fresh_id("at", random)
        self._random = random

    @cached_property
    def reference(self) -> Secret:
        """Return the token itself, if it is a reference token."""
        return fresh_secret(Prefix.ACCESS_TOKEN, self._random)


def is_by_reference(client: Client, api: Api) -> bool:
    """Return whether this client gets reference tokens for this API; a declared API decides.

    A JWT contains the uid, so clients with pairwise subjects get reference tokens.
    """
    chosen = api.access_token_format or client.access_token_format
    return chosen is AccessTokenFormat.REFERENCE or client.openid.is_pairwise


class Issuing(Struct, frozen=True):
    """One access token to issue. It expires no later than `ends_at`, the end of its grant.

    `identity` is that of the ID token issued with it, still without declared claims.
    """

    client: Client
    api: Api
    scope: Scope
    claims: TokenClaims
    draw: TokenSecrets
    lifetime: Lifetime
    now: Instant
    user: User | None = None
    grant_id: str | None = None
    auth_time: Instant | None = None
    ends_at: Instant | None = None
    refresh_token: Secret | None = None
    identity: SignInRecord | None = None
    actors: tuple[str, ...] = ()
    issued_token_type: str = ""


def issue_access_token(tx: Transaction, issuing: Issuing, key: FingerprintKey) -> Granted:
    """Create the record of an access token. A reference token is stored; a JWT is signed later.

    Raises Refused if its claims cannot be evaluated, and for a user in none of the groups that
    the API requires: every token of a user is issued here.
    """
    user, required = issuing.user, issuing.api.required_groups
    if user is not None and required and not tx.groups.admits(user.uid, required):
        raise Refused.because(
            ErrorCode.INVALID_GRANT,
            "the user is in none of the groups that may use this API",
            "grant.api_groups",
            f"{' or '.join(required)}, for {issuing.api.identifier}",
            "a user in none of them",
        )
    claims, identity = issuing.claims.of_tokens(
        tx,
        issuing.client.id,
        issuing.api,
        issuing.scope,
        issuing.user,
        issuing.identity,
    )
    expires_at = Instant(issuing.now + issuing.lifetime)
    if issuing.ends_at is not None:
        expires_at = min(expires_at, issuing.ends_at)
    reference = issuing.draw.reference if is_by_reference(issuing.client, issuing.api) else None
    if reference is not None:
        tx.access_tokens.issue(
            key.fingerprint(ACCESS_TOKEN, reference.reveal()),
            ReferenceToken(
                id=issuing.draw.token_id,
                client_id=issuing.client.id,
                grant_id=issuing.grant_id,
                uid=None if issuing.user is None else issuing.user.uid,
                scope=issuing.scope,
                audience=issuing.api.identifier,
                issued_at=issuing.now,
                expires_at=expires_at,
                actors=issuing.actors,
                claims=encoded(claims),
            ),
        )
    return Granted(
        client=issuing.client,
        api=issuing.api,
        scope=issuing.scope,
        token_id=issuing.draw.token_id,
        issued_at=issuing.now,
        expires_at=expires_at,
        user=issuing.user,
        grant_id=issuing.grant_id,
        auth_time=issuing.auth_time,
        reference=reference,
        refresh_token=issuing.refresh_token,
        identity=identity,
        actors=issuing.actors,
        issued_token_type=issuing.issued_token_type,
        claims=claims,
    )


class TokenResponses(Struct, frozen=True):
    """Turns a granted request into a token response. Runs after the commit, without a lock."""

    issuer: str
    keys: SigningKeyRing
    id_tokens: IdTokens

    def access_token(self, granted: Granted, now: Instant) -> str:
        """Return the access token: the reference as generated, or a signed JWT."""
        if granted.reference is not None:
            return granted.reference.reveal()
        key = self.keys.current(now, self._algorithm(granted))
        return access_token_of(granted, self.issuer).sign(key)

    def _algorithm(self, granted: Granted) -> Algorithm:
        algorithm = granted.api.signing_algorithm
        # The setting may have lost an algorithm since the API was declared.
        return algorithm if algorithm in self.keys.algorithms else ALGORITHM

    def assertion(self, issued: IssuedAssertion, now: Instant) -> dict[str, object]:
        """Return the members of the response with an identity assertion (RFC 8693 section 2.2).

        Signed as ID tokens are unless a client chooses: every library verifies that.
        """
        algorithm = Algorithm(default_id_token_algorithm(self.keys.algorithms))
        claims = {"iss": self.issuer, **issued.claims}
        body: dict[str, object] = {
            "access_token": jwt.sign(claims, self.keys.current(now, algorithm), typ=TYPE),
            "issued_token_type": ID_JAG_TOKEN,
            "token_type": "N_A",
            "expires_in": issued.lifetime,
        }
        if issued.scope:
            body["scope"] = str(issued.scope)
        return body

    async def response(self, granted: Granted | IssuedAssertion, now: Instant) -> dict[str, object]:
        """Return the members of the token response.

        It has an ID token if there is an identity and the scope has `openid`. Clients with pairwise
        subjects receive neither the uid nor anything else that identifies the user elsewhere.
        """
        if isinstance(granted, IssuedAssertion):
            return self.assertion(granted, now)
        body: dict[str, object] = {
            "access_token": self.access_token(granted, now),
            "token_type": "bearer",
            "expires_in": granted.expires_at - granted.issued_at,
        }
        if granted.refresh_token is not None:
            body["refresh_token"] = granted.refresh_token.reveal()
        # RFC 6749 section 3.3 has no empty scope: a token for an API without scopes has none.
        if granted.scope:
            body["scope"] = str(granted.scope)
        if granted.issued_token_type:
            body["issued_token_type"] = granted.issued_token_type
        if granted.identity is not None and OPENID in granted.scope:
            body["id_token"] = await self.id_tokens.mint(
                granted.identity, now, access_token=str(body["access_token"])
            )
        if granted.user is not None and not granted.client.openid.is_pairwise:
            body["uid"] = granted.user.uid
            body["info"] = info(granted.user, granted.scope)
        return body


def access_token_of(granted: Granted, issuer: str) -> AccessToken:
    """Return the content of the access token."""
    return AccessToken(
        issuer=issuer,
        subject=granted.client.id if granted.user is None else granted.user.subject,
        client_id=granted.client.id,
        audience=granted.api.identifier,
        scope=granted.scope,
        token_id=granted.token_id,
        issued_at=granted.issued_at,
        expires_at=granted.expires_at,
        grant_id=granted.grant_id,
        auth_time=granted.auth_time,
        actors=granted.actors,
        claims=granted.claims,
    )


def info(user: User, scope: Scope) -> dict[str, object]:
    """Return name and email if the granted scope allows them."""
    whole = "read" in scope or "account:read" in scope
    members: dict[str, object] = {}
    if whole or "profile" in scope:
        members["name"] = user.name
    if whole or "email" in scope:
        members["email"] = user.email
        # An unverified address must not be taken for an identity.
        members["email_verified"] = user.email_verified_at is not None
    return members
