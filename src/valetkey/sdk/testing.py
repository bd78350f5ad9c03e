"""Issue tokens for your own tests: an issuer in memory, without a server or a network."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from valetkey.kernel.jose.access_token import AccessToken, Binding
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant, Lifetime, hours, later
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret
from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.fetch import Answer, Credential
from valetkey.sdk.protect import Protection
from valetkey.sdk.upstream.discovery import Issuer

HOUR = hours(1)

_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})
_CREDENTIAL = Credential("tests", Secret("in-memory"))


@dataclass(frozen=True, slots=True)
class Mint:
    """Issue real tokens: signed, verified, refused once expired."""

    audience: str
    issuer: str = "https://issuer.test"
    runtime: Runtime = SYSTEM
    _key: SigningKey = field(default_factory=SigningKey.generate, repr=False)
    _references: dict[str, AccessToken] = field(default_factory=dict[str, AccessToken], repr=False)

    def protection(self) -> Protection:
        """Return a protection that trusts this mint, for use without an adapter."""
        return Protection(
            Issuer.valetkey(self.issuer),
            audience=self.audience,
            credential=_CREDENTIAL,
            remembered=Lifetime(0),
            http=_InMemory(self._key, self._references, self.runtime),
        )

    def token(
        self,
        scope: str = "",
        *,
        user: str | None = "1001",
        client: str = "test-client",
        lifetime: Lifetime = HOUR,
        audience: str = "",
        bindings: tuple[Binding, ...] = (),
        claims: Mapping[str, object] = _NO_CLAIMS,
    ) -> str:
        """Return a JWT with these space-separated scopes; with `user` None, a client's own.

        A `lifetime` of zero or less makes an expired token; another `audience` makes a token for
        another API. `claims` are further claims, such as `{"roles": ["editor"]}`.
        """
        now = self.runtime.now()
        return AccessToken(
            issuer=self.issuer,
            subject=client if user is None else user,
            client_id=client,
            audience=audience or self.audience,
            scope=Scope.parse(scope),
            token_id=fresh_id("at", self.runtime.random),
            issued_at=Instant(min(now, now + lifetime)),
            expires_at=later(now, lifetime),
            grant_id=None if user is None else fresh_id("gr", self.runtime.random),
            auth_time=None,
            bindings=bindings,
            claims=claims,
        ).sign(self._key)

    def reference(
        self, scope: str = "", *, user: str | None = "1001", client: str = "test-client"
    ) -> str:
        """Issue an access token by reference, valid for an hour or until `end`."""
        now = self.runtime.now()
        text = fresh_secret(Prefix.ACCESS_TOKEN, self.runtime.random).reveal()
        self._references[text] = AccessToken(
            issuer=self.issuer,
            subject=client if user is None else user,
            client_id=client,
            audience=self.audience,
            scope=Scope.parse(scope),
            token_id=fresh_id("at", self.runtime.random),
            issued_at=now,
            expires_at=later(now, HOUR),
            grant_id=None,
            auth_time=None,
        )
        return text

    def end(self, reference: str) -> None:
        """Revoke a token by reference."""
        del self._references[reference]

    def headers(self, scope: str = "", *, user: str | None = "1001") -> dict[str, str]:
        """Return the header of a request with a new token."""
        return {"Authorization": f"Bearer {self.token(scope, user=user)}"}


@contextmanager
def trusted(gate: Gate) -> Generator[Mint]:
    """Make `gate` trust a mint instead of its issuer until the block ends.

    >>> gate = Gate("https://auth.example.com", audience="https://api.example.com")
    >>> with trusted(gate) as mint:
    ...     mint.headers("notes:read", user="7").keys()
    dict_keys(['Authorization'])
    """
    mint = Mint(gate.audience, gate.issuer.url, gate.runtime)
    gate.replace(lambda _: mint.protection())
    try:
        yield mint
    finally:
        gate.replace(None)


@dataclass(frozen=True, slots=True)
class _InMemory:
    """A connection to an issuer that exists only in memory."""

    key: SigningKey
    references: Mapping[str, AccessToken]
    runtime: Runtime

    async def get(self, url: str, credential: Credential | None = None) -> Answer:
        """Return the keys, or an empty feed."""
        if credential is None:
            return Answer(200, KeySet.of(self.key.public).document())
        return Answer(200, b'{"cursor":"0","revocations":[]}')

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str],
        credential: Credential | None = None,
        *,
        accept: str = "",
    ) -> Answer:
        """Return the introspection response of a token."""
        token = self.references.get(fields["token"])
        if token is None:
            return Answer(200, b'{"active":false}')
        claims = {
            "active": True,
            "iss": token.issuer,
            "sub": token.subject,
            "aud": token.audience,
            "client_id": token.client_id,
            "scope": str(token.scope),
            "jti": token.token_id,
            "iat": token.issued_at,
            "exp": token.expires_at,
        }
        return Answer(200, msgspec.json.encode(claims))

    async def close(self) -> None:
        """Do nothing: no connection is open."""
