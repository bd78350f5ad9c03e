"""JWTs for one client, signed and encrypted as it registered (OpenID Connect Core section 10).

Nested as section 2 requires: signed first, then encrypted.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.tokens.client_keys import SharedSecrets
from valetkey.authorization.tokens.signing_keys import NoSigningKey, SigningKeyRing
from valetkey.kernel.jose import jwe, jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwe import EncryptionKeys
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused

_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}


def default_id_token_algorithm(offered: Collection[Algorithm]) -> str:
    """Return the algorithm of ID tokens for clients that chose none (Registration section 2).

    RS256, which every library verifies; ES256 on a server without RSA keys.
    """
    return (Algorithm.RS256 if Algorithm.RS256 in offered else Algorithm.ES256).value


class KeysOfClients(Protocol):
    """Provides the encryption keys of clients."""

    async def encryption(self, client: Client, now: Instant) -> EncryptionKeys:
        """Return the client's encryption keys."""
        ...


class ClientSigner(Struct, frozen=True):
    """Signs with the server's keys or a client's secret, and encrypts to the client's key."""

    keys: SigningKeyRing
    shared: SharedSecrets
    client_keys: KeysOfClients
    random: Callable[[int], bytes]

    async def sign(
        self,
        claims: Mapping[str, object],
        client: Client,
        now: Instant,
        *,
        typ: str = "JWT",
        algorithm: str | None,
        encryption_alg: str = "",
        encryption_enc: str = "",
    ) -> str:
        """Return the claims as a JWT of type `typ`, signed and encrypted for the client.

        HS256 signs with the client's newest secret, every other with the server's current key. An
        `algorithm` of None is the default of ID tokens; "" signs nothing, which only encrypted
        claims may do (Core section 5.3.2); an `encryption_alg` of "" encrypts nothing. Refused with
        `invalid_client_metadata` where there is no key for what the client registered.
        """
        if algorithm is None:
            algorithm = default_id_token_algorithm(self.keys.algorithms)
        if not algorithm and not encryption_alg:
            raise ValueError("claims for a client are signed, encrypted, or both")
        signed = await self._sign(claims, client, now, typ, algorithm) if algorithm else ""
        if not encryption_alg:
            return signed
        key = (await self.client_keys.encryption(client, now)).find(encryption_alg)
        if key is None or encryption_enc not in jwe.ENCRYPTIONS:
            raise _refused("encryption", f"a key for {encryption_alg} with {encryption_enc}")
        return jwe.encrypt(
            signed.encode("ascii") if signed else msgspec.json.encode(claims),
            key,
            alg=encryption_alg,
            enc=encryption_enc,
            cty="JWT" if signed else "",
            random=self.random,
        )

    async def _sign(
        self, claims: Mapping[str, object], client: Client, now: Instant, typ: str, algorithm: str
    ) -> str:
        if algorithm == mac.ALGORITHM:
            secrets = self.shared.of(client, now)
            if not secrets:
                raise _refused("secret", "a secret that is kept to be signed with")
            return mac.sign_shared(claims, secrets[0], typ=typ)
        known = _ALGORITHMS.get(algorithm)
        if known is None:
            raise _refused("algorithm", " or ".join((*_ALGORITHMS, mac.ALGORITHM)))
        await self.keys.refresh_each_second(now)
        try:
            key = self.keys.current(now, known)
        except NoSigningKey:
            raise _refused("algorithm", f"a key of the server for {algorithm}") from None
        return jwt.sign(claims, key, typ=typ)


def _refused(check: str, expected: str) -> Refused:
    return Refused.because(
        ErrorCode.INVALID_CLIENT_METADATA,
        "there is no key for the algorithms that this client is registered with",
        f"signed.{check}",
        expected,
    )
