"""Keys of clients, and JWTs for one client, signed and encrypted as it registered.

A client rotates its keys by publishing new ones without notice (OpenID Connect Core section
10.1.1), so an unknown signature may justify a refetch. Refetches are rate-limited because an
attacker can cause them.

Nested as section 2 requires: signed first, then encrypted.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.tokens.signing_keys import NoSigningKey, SigningKeyRing
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.jose import jwe, jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwe import EncryptionKeys
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, days, later, minutes, seconds
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import Secret, to_base64url

LIFE = minutes(5)
"""Lifetime of a cached key set; a withdrawn key is unusable after that."""

LOOK_AGAIN = seconds(30)
"""Minimum time between refetches that found nothing new."""

_EARLY = minutes(1)
"""How long before expiry a key set in use is refreshed in the background."""

_AWAY = days(1)
"""How long past its lifetime a key set is used while the client's server is unreachable."""

_MOST = 1_000
_TYPES = ("application/json", "application/jwk-set+json")


class _CachedKeys(Struct, frozen=True):
    """A cached key set and when it was fetched; `futile_at` is the time of a fruitless refetch."""

    document: bytes
    signing: KeySet
    encryption: EncryptionKeys
    read_at: Instant
    futile_at: Instant | None = None

    def may_look(self, now: Instant) -> bool:
        return self.futile_at is None or later(self.futile_at, LOOK_AGAIN) <= now

    def is_due(self, now: Instant) -> bool:
        return later(self.read_at, LIFE) <= now


_KeySource = tuple[str, str]


class ClientKeys:
    """Public keys of clients, by value or fetched from their registered `jwks_uri`."""

    def __init__(self, http: OutboundHttp) -> None:
        """Start with an empty cache; fetch through `http`."""
        self._http = http
        # Keyed by client as well, so that other clients cannot use up this client's refetches.
        self._kept: OrderedDict[_KeySource, _CachedKeys] = OrderedDict()
        self._troubles: OrderedDict[_KeySource, str] = OrderedDict()
        self._early: dict[_KeySource, asyncio.Task[_CachedKeys | None]] = {}

    async def signing(self, client: Client, now: Instant, *, kid: str | None = None) -> KeySet:
        """Return the keys the client signs with; `kid` is the one named by the signature.

        Keys from a `jwks_uri` are cached for 5 minutes and refreshed before they expire. An unknown
        `kid` causes an immediate refetch, at most once in 30 seconds. Empty if the client has no
        keys or they cannot be fetched.
        """
        source = _source_of(client)
        if source is None:
            return client.key_set
        kept = await self._current(source, now)
        if kept is not None and kid is not None and kept.signing.find(kid) is None:
            kept = await self._look_again(source, kept, now)
        return KeySet() if kept is None else kept.signing

    async def signing_again(self, client: Client, now: Instant) -> KeySet:
        """Return the signing keys after an unverifiable signature, refetched if allowed."""
        source = _source_of(client)
        if source is None:
            return client.key_set
        kept = self._kept.get(source)
        if kept is None:
            return await self.signing(client, now)
        kept = await self._look_again(source, kept, now)
        return kept.signing

    async def encryption(self, client: Client, now: Instant) -> EncryptionKeys:
        """Return the keys to encrypt to for this client, by value or from its `jwks_uri`.

        Empty if the client has none or they cannot be fetched.
        """
        source = _source_of(client)
        if source is not None:
            kept = await self._current(source, now)
            return EncryptionKeys() if kept is None else kept.encryption
        document = client.openid.encryption_keys
        return EncryptionKeys.parse(document.encode()) if document else EncryptionKeys()

    def problem_of(self, client: Client) -> str:
        """Return the rule that the last fetch of its `jwks_uri` failed; "" if it succeeded."""
        source = _source_of(client)
        return "" if source is None else self._troubles.get(source, "")

    async def _current(self, source: _KeySource, now: Instant) -> _CachedKeys | None:
        kept = self._kept.get(source)
        if kept is None:
            return await self._read(source, now)
        self._kept.move_to_end(source)
        if not kept.may_look(now):
            return kept
        if kept.is_due(now):
            return await self._read(source, now)
        if kept.is_due(later(now, _EARLY)) and source not in self._early:
            task = asyncio.create_task(self._read(source, now))
            self._early[source] = task
            task.add_done_callback(lambda _: self._early.pop(source))
        return kept

    async def _look_again(self, source: _KeySource, kept: _CachedKeys, now: Instant) -> _CachedKeys:
        if not kept.may_look(now):
            return kept
        keys = await self._read(source, now) or kept
        if keys.document == kept.document:
            keys = replace(keys, futile_at=now)
            self._keep(source, keys)
        return keys

    async def _read(self, source: _KeySource, now: Instant) -> _CachedKeys | None:
        """Fetch the key set; fall back to the previous one while the server is unreachable."""
        try:
            fetched = await self._http.get(source[1], accept=_TYPES)
            # A key of an unknown type may be meant for others.
            signing = KeySet.parse(fetched.body, ignore_unknown=True)
            encryption = EncryptionKeys.parse(fetched.body)
        except (Unfetchable, Refused) as error:
            self._note(source, error)
            before = self._kept.get(source)
            if before is not None and later(before.read_at, _AWAY) > now:
                kept = replace(before, futile_at=now)
            elif isinstance(error, Unfetchable):
                # The outbound client itself caches failures for a moment.
                self._kept.pop(source, None)
                return None
            else:
                kept = _CachedKeys(b"", KeySet(), EncryptionKeys(), now, futile_at=now)
        else:
            # Replaced, never merged: a key that is gone was withdrawn.
            kept = _CachedKeys(fetched.body, signing, encryption, now)
            self._troubles.pop(source, None)
        self._keep(source, kept)
        return kept

    def _note(self, source: _KeySource, error: Unfetchable | Refused) -> None:
        check = error.check if isinstance(error, Unfetchable) else error.refusal.check
        self._troubles[source] = check
        if len(self._troubles) > _MOST:
            self._troubles.popitem(last=False)

    def _keep(self, source: _KeySource, kept: _CachedKeys) -> None:
        self._kept[source] = kept
        self._kept.move_to_end(source)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)


def _source_of(client: Client) -> _KeySource | None:
    uri = client.openid.jwks_uri
    return (client.id, uri) if uri else None


class SharedSecrets(Struct, frozen=True):
    """Decrypts the sealed secrets of clients; clients that do not sign with a secret have none."""

    sealer: Sealer

    def live_secrets(self, client: Client, now: Instant) -> tuple[Secret, ...]:
        """Return the client's live sealed secrets, newest first.

        Empty if it has none, or if the keyring is another one.
        """
        opened = (
            self.sealer.open(secret.sealed, secret_context(secret.id))
            for secret in client.secrets
            if secret.sealed and secret.is_live(now)
        )
        return tuple(Secret(plain.decode()) for plain in opened if plain is not None)


def secret_context(secret_id: str) -> str:
    """Return the binding of a sealed secret to its row: it cannot be decrypted in another."""
    return f"client_secrets.sealed:{secret_id}"


_ALGORITHMS = {algorithm.value: algorithm for algorithm in Algorithm}


def default_id_token_algorithm(offered: Collection[Algorithm]) -> str:
    """Return the algorithm of ID tokens for clients that chose none (Registration section 2).

    RS256, which every library verifies; ES256 on a server without RSA keys.
    """
    return (Algorithm.RS256 if Algorithm.RS256 in offered else Algorithm.ES256).value


class ClientSigner(Struct, frozen=True):
    """Signs with the server's keys or a client's secret, and encrypts to the client's key."""

    keys: SigningKeyRing
    shared: SharedSecrets
    client_keys: ClientKeys
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
            secrets = self.shared.live_secrets(client, now)
            if not secrets:
                raise _refused("secret", "a secret that is kept to be signed with")
            return mac.sign_shared(claims, secrets[0], typ=typ)
        signing_algorithm = _ALGORITHMS.get(algorithm)
        if signing_algorithm is None:
            raise _refused("algorithm", " or ".join((*_ALGORITHMS, mac.ALGORITHM)))
        await self.keys.refresh_each_second(now)
        try:
            key = self.keys.current(now, signing_algorithm)
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


_LIFETIME = minutes(1)


async def sign_client_assertion(
    keys: SigningKeyRing,
    runtime: Runtime,
    client_id: str,
    audience: str,
    announced: Collection[str],
) -> str:
    """Return an assertion, signed with a key that `/oauth/jwks` publishes.

    The first of our algorithms that the other server announced, or the first if it announced none.
    Its issuer is the client ID, so it is no token of this server.
    """
    now = runtime.now()
    await keys.refresh(now, surely=True)
    algorithms = tuple(keys.algorithms)
    algorithm = next(
        (candidate for candidate in algorithms if candidate in announced), algorithms[0]
    )
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": to_base64url(runtime.random(16)),
        "iat": now,
        "exp": now + _LIFETIME,
    }
    return jwt.sign(claims, keys.current(now, algorithm), typ="JWT")
