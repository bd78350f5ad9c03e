"""Authenticate the client by exactly one method (RFC 6749 section 2.3)."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.client_authentication.secret_uses import SecretUses
from valetkey.authorization.model.register.client import (
    Client,
    ClientSecret,
    client_without_rights,
)
from valetkey.authorization.protocol.client_authentication import METHODS, PARAMETERS, none
from valetkey.authorization.protocol.client_authentication.method import (
    Authenticated,
    ClientProof,
    Method,
    Presented,
    ProofInputs,
    not_proven,
)
from valetkey.authorization.protocol.liveness import liveness_of, require_live
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.client_keys import ClientKeys, SharedSecrets
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, FingerprintKey
from valetkey.web.rate_limit import Buckets

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

    async def authenticate(self, presented: Presented, place: str) -> Authenticated:
        """Return the client that sent the request from `place`, an address prefix.

        Refused with `invalid_client` in the same words for every failure, `invalid_request` for two
        methods at once, and `slow_down` for a failure after too many from one place.
        """
        now = presented.now
        recognised = [each for each in METHODS if each.recognises(presented)] or [none.METHOD]
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
                and self._may_fetch_again(client_id, place, now)
            ):
                client = await self._with_new_keys(client, now)
                verdict = await self._judge(method, presented, client)
        if client is None:
            verdict = not_proven("unknown", "a registered client", "another id")
        elif require_live(liveness_of(client), now):
            verdict = not_proven("disabled", "an enabled client", "a disabled one")
        if isinstance(verdict, Refusal) or client is None:
            refusal = verdict if isinstance(verdict, Refusal) else not_proven("unknown")
            wait = self._count(client_id, place, now)
            told = wait or self._recorded(refusal, client or _UNKNOWN_CLIENT)
            # Recorded for the developers of the client.
            raise Refused(replace(told, about="" if client is None else client.id))
        return Authenticated(client, method.name, verdict)

    async def authenticate_again(self, presented: Presented, place: str) -> Authenticated:
        """Authenticate as `authenticate` does, with the client re-read from the database.

        A one-time assertion that was redeemed the first time is not redeemed again.
        """
        self._directory.recheck()
        return await self.authenticate(presented, place)

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
        means = ProofInputs(keys, self._fingerprints, self._shared.of, self._uses.note)
        return method.proves(presented, client, means)

    def _recorded(self, refusal: Refusal, client: Client) -> Refusal:
        # Recorded: no key fits because none could be read. The response stays the same.
        trouble = self._keys.problem_of(client)
        if not trouble or refusal.check not in _WORTH_NEW_KEYS:
            return refusal
        return replace(refusal, check=f"client.{trouble}", expected="keys at its jwks_uri")

    def _may_fetch_again(self, client_id: str, place: str, now: Instant) -> bool:
        # Its keys may be a moment old; not every guess may cause a fetch.
        return not (
            self._failures.of_client.peek((client_id, place), now)
            or self._failures.of_place.peek(place, now)
        )

    def _count(self, client_id: str, place: str, now: Instant) -> Refusal | None:
        # Only failures are counted: secrets of 256 bits are not found by guessing, and a
        # stranger in the neighbourhood must not be able to shut a client out. Anyone can make up
        # ids, and what counts them must not grow with their length.
        wait = max(
            self._failures.of_client.take((client_id[:_LONGEST_ID], place), now),
            self._failures.of_place.take(place, now),
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
