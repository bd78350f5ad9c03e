"""Token responses: sign what was granted and add what the client may know (RFC 6749 5.1)."""

from msgspec import Struct

from valetkey.authorization.model.account.user import User
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.metadata import ID_JAG_TOKEN
from valetkey.authorization.tokens.id_token import IdTokens
from valetkey.authorization.tokens.identity_assertion import TYPE, IssuedAssertion
from valetkey.authorization.tokens.issue import Granted
from valetkey.authorization.tokens.signed import default_id_token_algorithm
from valetkey.authorization.tokens.signing_keys import ALGORITHM, SigningKeyRing
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


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
        wanted = granted.api.signing_algorithm
        # The setting may have lost an algorithm since the API was declared.
        return wanted if wanted in self.keys.algorithms else ALGORITHM

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
    said: dict[str, object] = {}
    if whole or "profile" in scope:
        said["name"] = user.name
    if whole or "email" in scope:
        said["email"] = user.email
        # An unverified address must not be taken for an identity.
        said["email_verified"] = user.email_verified_at is not None
    return said
