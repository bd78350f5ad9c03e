"""A bounded memory of client secrets that were verified recently (docs/decisions/0040)."""

from hashlib import blake2b

from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.client_authentication.secret_uses import SecretUses
from valetkey.authorization.protocol.client_authentication import PARAMETERS
from valetkey.authorization.protocol.client_authentication.client_secret import METHOD
from valetkey.authorization.protocol.client_authentication.method import Authenticated
from valetkey.authorization.protocol.liveness import liveness_of, require_live
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant
from valetkey.web.body import Form

MOST = 4_096
"""Maximum number of remembered credentials; the oldest is evicted first."""

LONGEST = 60
"""Seconds for which a verified secret is remembered at most."""

_BYTES = 32
_IN_HEADER = b"header"
_IN_BODY = b"body"
# An assertion that is a grant authenticates a client too.
_OTHERS = (PARAMETERS | {"assertion"}) - {"client_secret"}


class VerifiedSecrets:
    """Secrets that authenticated a client of this process, found again by a keyed digest.

    Successes only, and only of secrets in the Authorization header or in the body. A secret is
    remembered for the very object of the client that it was verified against: `ClientDirectory`
    replaces that object when anything about clients changes.
    """

    __slots__ = ("_directory", "_key", "_known", "_uses")

    def __init__(self, directory: ClientDirectory, uses: SecretUses, key: bytes) -> None:
        """Start empty. `key` is random and known to this process only."""
        self._directory = directory
        self._uses = uses
        self._key = key
        self._known: dict[bytes, tuple[Authenticated, Instant]] = {}

    def digest(self, header: bytes | None, parameters: Form) -> bytes | None:
        """Return the digest of a secret sent in one place; None for any other credential.

        Header and body have digests of their own: a client may be registered for one of them.
        """
        if not _OTHERS.isdisjoint(parameters.names):
            return None
        secret = parameters.get("client_secret")
        if header is not None:
            return None if secret is not None else self._of(_IN_HEADER, header)
        client_id = parameters.get("client_id")
        if secret is None or client_id is None:
            return None
        # Parameters contain no NUL, so no two pairs have the same text.
        return self._of(_IN_BODY, f"{client_id}\0{secret}".encode())

    async def find(self, digest: bytes, named: str | None, now: Instant) -> Authenticated | None:
        """Return the client that this credential authenticates, if that was verified recently.

        `named` is the request's client_id. The use of the secret is recorded, as by the method.
        """
        known = self._known.get(digest)
        if known is None:
            metrics.CACHE.add("client_secrets", "miss")
            return None
        proven, at = known
        client = proven.client
        current = await self._directory.remembered(client.id)
        live = [each.id for each in proven.proof.secrets if each.is_live(now)]
        has_ended = current is not client or require_live(liveness_of(client), now) is not None
        if has_ended or not live or not 0 <= now - at < LONGEST:
            self._known.pop(digest, None)
            metrics.CACHE.add("client_secrets", "miss")
            return None
        if named is not None and named != client.id:
            return None
        for secret_id in live:
            self._uses.note(secret_id, now)
        metrics.CACHE.add("client_secrets", "hit")
        return proven

    def add(self, digest: bytes, proven: Authenticated, now: Instant) -> None:
        """Remember that this credential authenticated the client at `now`."""
        if proven.method != METHOD.name or proven.client.disabled_at is not None:
            return
        # Deleted first: a replaced entry would keep its place in the order of eviction.
        self._known.pop(digest, None)
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[digest] = proven, now

    def _of(self, place: bytes, credential: bytes) -> bytes:
        return blake2b(credential, key=self._key, person=place, digest_size=_BYTES).digest()
