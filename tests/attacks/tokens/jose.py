"""Places that take a JWT, and tokens for them that are right but for one thing."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.live import Answer, LiveServers
from valetkey.authorization.app.foundation import build_foundation
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.secret import to_base64url
from valetkey.resource.scopes import SCOPES

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Claims = dict[str, object]
Signer = Callable[[bytes], bytes]


class Target(Protocol):
    """A place that takes a JWT: what a right one says, whose key signs it, how it is judged."""

    world: LiveServers
    key: SigningKey
    typ: str
    is_ours: bool
    """Whether this server issues it: programs of others write numbers as RFC 7519 allows."""

    def claims(self) -> Claims:
        """What a right one says now."""
        ...

    def takes(self, token: str) -> bool:
        """Whether it takes this one; it says no as it should."""
        ...


@dataclass
class AccessTokens:
    """The API, and introspection, which must agree."""

    world: LiveServers
    key: SigningKey
    typ: str = "at+jwt"
    is_ours: bool = True
    _said: Claims = field(default_factory=dict[str, object])

    def claims(self) -> Claims:
        """Those of a real token of alice, with a short life of their own."""
        now = self.world.servers.clock.now()
        if not self._said:
            token_claims = self.world.introspect(self.world.tokens()["access_token"])
            kept = ("iss", "sub", "aud", "client_id", "scope", "grant_id")
            self._said = {name: token_claims[name] for name in kept}
        return self._said | {"jti": "x", "iat": now, "exp": now + 60}

    def takes(self, token: str) -> bool:
        """401 by the API and inactive at introspection, or welcome at both."""
        answer = self.world.call(token)
        if answer.status != 200:
            assert answer.status == 401
            assert 'error="invalid_token"' in answer.response.headers["www-authenticate"]
            assert answer.json["title"] == "Invalid Token Error"
        introspection = self.world.token(path="/oauth/introspect", token=token)
        if introspection.status == 200 and introspection.response.text != '{"active":false}':
            assert answer.status == 200, "only introspection takes it"
            return True
        assert answer.status == 401, "only the API takes it"
        return False


@dataclass
class Assertions:
    """The token endpoint, where `pk1` proves itself."""

    world: LiveServers
    key: SigningKey
    typ: str = "JWT"
    is_ours: bool = False

    def claims(self) -> Claims:
        """A fresh assertion's."""
        now = self.world.servers.clock.now()
        jti = self.world.servers.runtime.random(16).hex()
        audience = self.world.auth
        return {
            "iss": "pk1",
            "sub": "pk1",
            "aud": audience,
            "jti": jti,
            "iat": now,
            "exp": now + 60,
        }

    def takes(self, token: str) -> bool:
        """A token, or 401."""
        answer = prove(self.world, token)
        if answer.status != 200:
            answer.refused(401, "invalid_client")
        return answer.status == 200


def prove(world: LiveServers, assertion: str, **parameters: str) -> Answer:
    """Ask for a token with this as the proof."""
    proof = {"client_assertion": assertion, "client_assertion_type": ASSERTION}
    return world.token("pk1", path="/token", grant_type="client_credentials", **proof, **parameters)


def key_of(world: LiveServers) -> SigningKey:
    """The key that signs access tokens: with it, only what a token says can be wrong."""

    async def current() -> SigningKey:
        servers, now = world.servers, world.servers.clock.now()
        foundation = build_foundation(servers.settings, servers.runtime, SCOPES)
        await foundation.keys.refresh(now)
        key = foundation.keys.current(now)
        await foundation.store.engine.close()
        return key

    return asyncio.run(current())


def forge(
    target: Target,
    header: Mapping[str, object] | bytes | None = None,
    claims: Mapping[str, object] | bytes | None = None,
    sign: Signer | None = None,
) -> str:
    """A token of the target's key that is right but for what is said here; None leaves out."""
    if not isinstance(header, bytes):
        right = {"alg": target.key.algorithm.value, "kid": target.key.kid, "typ": target.typ}
        kept = {name: v for name, v in (right | dict(header or {})).items() if v is not None}
        header = json.dumps(kept).encode()
    if not isinstance(claims, bytes):
        payload = target.claims() | dict(claims or {})
        claims = json.dumps({name: v for name, v in payload.items() if v is not None}).encode()
    signed = f"{to_base64url(header)}.{to_base64url(claims)}"
    return f"{signed}.{to_base64url((sign or target.key.sign)(signed.encode()))}"
