"""Authenticate the client by exactly one method (RFC 6749 section 2.3), from bounded caches."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import blake2b

from msgspec import Struct

from valetkey.authorization.model.client import (
    RESOURCE_SERVER,
    Client,
    ClientSecret,
    client_without_rights,
)
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.grant import liveness_of, require_live
from valetkey.authorization.protocol.client_authentication import METHODS, PARAMETERS, none
from valetkey.authorization.protocol.client_authentication.client_secret import METHOD
from valetkey.authorization.protocol.client_authentication.method import (
    Authenticated,
    ClientProof,
    Method,
    Presented,
    ProofInputs,
    not_proven,
)
from valetkey.authorization.storage.revision import is_revision, revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.client_keys import ClientKeys, SharedSecrets
from valetkey.kernel import metrics
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.pace import rest
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, FingerprintKey
from valetkey.web.body import Form
from valetkey.web.client_address import Buckets

_MOST = 10_000


class ClientDirectory:
    """Clients by id. This process sees its own changes at once, and those of others soon."""

    def __init__(self, store: Store) -> None:
        """Start with an empty cache."""
        self._store = store
        self._known: dict[str, Client] = {}
        self._changed = -1
        self._revision = -1

    @property
    def revision(self) -> int:
        """The revision of the register that was compared last; -1 before the first time."""
        return self._revision

    async def find(self, client_id: str) -> Client | None:
        """Return the client, disabled or not. Unknown ids are not cached: anyone can invent one."""
        return await self.remembered(client_id) or await self.find_client(client_id)

    async def remembered(self, client_id: str) -> Client | None:
        """Return the client if it is cached and no client has changed since."""
        await self.compare()
        client = self._known.get(client_id)
        metrics.CACHE.add("clients", "miss" if client is None else "hit")
        return client

    async def find_client(self, client_id: str) -> Client | None:
        """Return the client in the database, with the same work whether or not it exists."""
        if not client_id or not client_id.isascii() or not client_id.isprintable():
            return None
        number, client = await self._store.read(lambda tx: _read(tx, client_id))
        if client is not None and number == self._revision:
            if len(self._known) >= _MOST:
                self._known.clear()
            # The one that is there stays: requests under way are known by it.
            return self._known.setdefault(client_id, client)
        return client

    async def find_again(self, client_id: str) -> Client | None:
        """Re-read the client from the database; call it before refusing a client.

        Another process may have changed it less than a second ago.
        """
        self.recheck()
        await self.compare()
        return await self.find_client(client_id)

    def recheck(self) -> None:
        """Compare the revision with the database before the next client is returned.

        For a caller that knows of a change by another process, which `Engine.changed` notices
        after half a second.
        """
        self._changed = -1

    def is_current(self, tx: Transaction, client: Client) -> bool:
        """Return whether `client`, a result of `find`, is current for this transaction.

        False means unknown: read it then. Safe to call from any thread.
        """
        # Read before the clients: they are replaced before it is.
        number = self._revision
        return self._known.get(client.id) is client and is_revision(tx.db, number)

    async def compare(self) -> None:
        """Compare the revision with the database, if something was committed since."""
        changed = self._store.engine.changed()
        if changed == self._changed:
            return
        number = await self._store.read_one(lambda tx: revision(tx.db))
        self._changed = changed
        if number != self._revision:
            # In this order, for those who ask `is_current` meanwhile.
            self._known.clear()
            self._revision = number


def _read(tx: Transaction, client_id: str) -> tuple[int, Client | None]:
    number, client = revision(tx.db), tx.clients.find(client_id)
    # One that is there and one that is not, in any case: to read a client takes longer than none.
    tx.clients.find(RESOURCE_SERVER if client is None else "")
    return number, client


EVERY = hours(1)
"""The precision of the time at which a secret was last used."""

_WRITE_EVERY = 30.0


class SecretUses:
    """Last use of client secrets, collected in memory and written later.

    Uses not yet written are lost when the process ends.
    """

    def __init__(self) -> None:
        """Start without recorded uses."""
        self._noted: dict[str, Instant] = {}
        self._waiting: dict[str, Instant] = {}

    def record(self, secret_id: str, now: Instant) -> None:
        """Record a use of this secret at `now`."""
        if self._noted.get(secret_id, 0) > now - EVERY:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[secret_id] = self._waiting[secret_id] = now

    async def flush(self, store: Store) -> None:
        """Write the collected uses; those that could not be written are kept."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        try:
            await store.write(partial(_write, waiting), done_by=SYSTEM)
        except BaseException:
            self._waiting = {**waiting, **self._waiting}
            raise

    async def run(self, store: Store) -> None:
        """Write the collected uses every 30 seconds until cancelled."""
        while True:
            await rest(_WRITE_EVERY)
            await self.flush(store)


def _write(uses: Mapping[str, Instant], tx: Transaction) -> None:
    tx.secrets.note_uses(uses)


_MINUTE = 60
_LONGEST_ID = 200
"""Longer than any client id."""


Renew = Callable[[str, Instant, bool], Awaitable[None]]
"""Fetches the metadata of a client if they are stale or, with True, if a key is missing."""


class Failures(Struct, frozen=True):
    """The number of failures per minute before requests are delayed."""

    of_client: Buckets
    of_place: Buckets

    @staticmethod
    def per_minute(limit: int) -> "Failures":
        """Return `limit` for one client from one network, ten times that for all clients there."""
        return Failures(Buckets(limit, _MINUTE), Buckets(10 * limit, _MINUTE))


class ClientAuthentication:
    """Asks each method whether it recognises the request; more than one is an error."""

    def __init__(
        self,
        directory: ClientDirectory,
        fingerprints: FingerprintKey,
        failures: Failures,
        keys: ClientKeys,
        shared: SharedSecrets,
        uses: SecretUses,
        renew: Renew | None = None,
    ) -> None:
        """Count failures in `failures`, in this process; `uses` records valid secrets.

        `renew` fetches the metadata of a client whose id is its URL, if the stored copy is stale or
        lacks a key.
        """
        self._renew = renew
        self._uses = uses
        self._directory = directory
        self._fingerprints = fingerprints
        self._failures = failures
        self._keys = keys
        self._shared = shared

    async def authenticate(self, presented: Presented, address_prefix: str) -> Authenticated:
        """Return the client that sent the request from `address_prefix`.

        Refused with `invalid_client` in the same words for every failure, `invalid_request` for two
        methods at once, and `slow_down` for a failure after too many from one place.
        """
        now = presented.now
        recognised = [method for method in METHODS if method.recognises(presented)] or [none.METHOD]
        # Header and body may be one method and still are two places, also with an empty header.
        twice = presented.basic is not None and not PARAMETERS.isdisjoint(
            presented.parameters.names
        )
        if len(recognised) != 1 or twice:
            raise Refused(_two_proofs())
        method = recognised[0]
        client_id = method.claims(presented)
        named = presented.parameters.get("client_id")
        if named is not None and named != client_id:
            raise Refused(_two_names())
        if self._renew is not None:
            await self._renew(client_id, now, False)
        # An unknown client costs the same work as a wrong secret: two verifications and one read.
        client = await self._directory.remembered(client_id)
        verdict = await self._judge(method, presented, client or _UNKNOWN_CLIENT)
        if client is None or client.disabled_at or isinstance(verdict, Refusal):
            # Another process may have given it a secret, or enabled it, a moment ago.
            client = await self._directory.find_client(client_id)
            verdict = await self._judge(method, presented, client or _UNKNOWN_CLIENT)
            # This verdict is about the client as it is; the first may be about no client.
            if (
                client is not None
                and isinstance(verdict, Refusal)
                and verdict.check in _WORTH_NEW_KEYS
                and self._may_fetch_again(client_id, address_prefix, now)
            ):
                client = await self._with_new_keys(client, now)
                verdict = await self._judge(method, presented, client)
        if client is None:
            verdict = not_proven("unknown", "a registered client", "another id")
        elif require_live(liveness_of(client), now):
            verdict = not_proven("disabled", "an enabled client", "a disabled one")
        if isinstance(verdict, Refusal) or client is None:
            refusal = verdict if isinstance(verdict, Refusal) else not_proven("unknown")
            wait = self._count(client_id, address_prefix, now)
            answer = wait or self._recorded(refusal, client or _UNKNOWN_CLIENT)
            # Recorded for the developers of the client.
            raise Refused(replace(answer, about="" if client is None else client.id))
        return Authenticated(client, method.name, verdict)

    async def authenticate_again(self, presented: Presented, address_prefix: str) -> Authenticated:
        """Authenticate as `authenticate` does, with the client re-read from the database.

        A one-time assertion that was redeemed the first time is not redeemed again.
        """
        self._directory.recheck()
        return await self.authenticate(presented, address_prefix)

    def is_on(self, tx: Transaction, client: Client) -> bool:
        """Return whether this record of an authenticated client is still valid.

        False if it was disabled since, or if another process disabled and enabled it within the
        last half second: then `authenticate_again` gives the new record. Usually one comparison of
        the clients' revision answers it for every client.
        """
        return self._directory.is_current(tx, client) or tx.clients.is_on(client)

    async def _with_new_keys(self, client: Client, now: Instant) -> Client:
        """Fetch the keys of the client where it publishes them, unless that was just done."""
        if client.openid.jwks_uri:
            await self._keys.signing_again(client, now)
        elif self._renew is not None:
            await self._renew(client.id, now, True)
            return await self._directory.find_client(client.id) or client
        return client

    async def _judge(
        self, method: Method, presented: Presented, client: Client
    ) -> ClientProof | Refusal:
        keys = KeySet()
        # An unauthenticated request must not cause a fetch for a client that needs no keys.
        if method.needs_keys and client.authentication_method == method.name:
            keys = await self._keys.signing(client, presented.now)
        means = ProofInputs(keys, self._fingerprints, self._shared.live_secrets, self._uses.record)
        return method.proves(presented, client, means)

    def _recorded(self, refusal: Refusal, client: Client) -> Refusal:
        # Recorded: no key fits because none could be read. The response stays the same.
        trouble = self._keys.problem_of(client)
        if not trouble or refusal.check not in _WORTH_NEW_KEYS:
            return refusal
        return replace(refusal, check=f"client.{trouble}", expected="keys at its jwks_uri")

    def _may_fetch_again(self, client_id: str, address_prefix: str, now: Instant) -> bool:
        # Its keys may be a moment old; not every guess may cause a fetch.
        return not (
            self._failures.of_client.peek((client_id, address_prefix), now)
            or self._failures.of_place.peek(address_prefix, now)
        )

    def _count(self, client_id: str, address_prefix: str, now: Instant) -> Refusal | None:
        # Only failures are counted: secrets of 256 bits are not found by guessing, and a
        # stranger in the neighbourhood must not be able to shut a client out. Anyone can make up
        # ids, and what counts them must not grow with their length.
        wait = max(
            self._failures.of_client.take((client_id[:_LONGEST_ID], address_prefix), now),
            self._failures.of_place.take(address_prefix, now),
        )
        return _too_many(wait) if wait else None


def spend_mark(tx: Transaction, proven: Authenticated) -> Refusal | None:
    """Store the assertion's mark, so that it is accepted only once by any process and endpoint."""
    if proven.mark is None or tx.vouchers.issue(proven.mark):
        return None
    return not_proven("assertion.replayed", "an assertion not used before", "a used one")


# Refusals that new keys of the client might resolve.
_WORTH_NEW_KEYS = frozenset(
    f"client.assertion.{check}" for check in (jwt.UNKNOWN_KEY, "jwt.alg", "jwt.signature")
)
_UNKNOWN_CLIENT = replace(
    client_without_rights("", Instant(0)),
    disabled_at=Instant(0),
    secrets=(ClientSecret("", Fingerprint("no secret has this fingerprint"), None),),
)


def _two_proofs() -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        "the client's credentials must come in one place and one form only",
        "client.two_proofs",
        "one method",
        "more than one",
    )


def _two_names() -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        "client_id differs from the client that the credentials name",
        "client.two_names",
        "one client_id",
        "two",
    )


def _too_many(wait: int) -> Refusal:
    return Refusal(
        ErrorCode.SLOW_DOWN,
        "too many failed client authentications from this address; wait and try again",
        "client.too_many_failures",
        retry_after=wait,
    )


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
        verification = self._known.get(digest)
        if verification is None:
            metrics.CACHE.add("client_secrets", "miss")
            return None
        proven, at = verification
        client = proven.client
        current = await self._directory.remembered(client.id)
        live = [secret.id for secret in proven.proof.secrets if secret.is_live(now)]
        has_ended = current is not client or require_live(liveness_of(client), now) is not None
        if has_ended or not live or not 0 <= now - at < LONGEST:
            self._known.pop(digest, None)
            metrics.CACHE.add("client_secrets", "miss")
            return None
        if named is not None and named != client.id:
            return None
        for secret_id in live:
            self._uses.record(secret_id, now)
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

    def _of(self, location: bytes, credential: bytes) -> bytes:
        return blake2b(credential, key=self._key, person=location, digest_size=_BYTES).digest()
