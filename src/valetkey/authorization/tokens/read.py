"""Read presented access tokens and check what they depend on; cached until that changes."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from valetkey.authorization.model.api import NO_CLAIMS, Claims
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Grant, Liveness
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.revision import require_token_state, token_state
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.authorization.storage.tokens import ReferenceToken
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.claims import decoded
from valetkey.authorization.tokens.issue import ACCESS_TOKEN
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel import metrics
from valetkey.kernel.jose import access_token
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, is_live
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, Prefix, well_formed
from valetkey.web.exchange import Response

T = TypeVar("T")
R = TypeVar("R")

MOST_KNOWN = 4_096
"""Maximum number of cached tokens; the oldest is evicted first."""

_LONGEST_BODY = 2_048

_LONGEST = 5
"""Seconds for which an answer is used at most: the documented delay of revocations."""


class CachedAnswer(Struct, Generic[T]):
    """What is known of a token, with the response that was built from it for one client.

    The response may be sent again only to that client: the same object, not an equal one.
    """

    value: T
    client: Client | None = None
    response: Response | None = None

    def response_to(self, client: Client) -> Response | None:
        """Return the response that was built for this client, if it was kept."""
        return self.response if self.client is client else None

    def keep(self, client: Client, response: Response) -> None:
        """Keep a response for this client, in place of another's, unless its body is large."""
        if len(response.body) <= _LONGEST_BODY:
            self.client, self.response = client, response


class SharedRefresh:
    """Coalesces concurrent refreshes: each caller is served by one that began after it arrived.

    So no caller gets a result older than its request, and at most two refreshes are running or
    waiting.
    """

    __slots__ = ("_next", "_running")

    def __init__(self) -> None:
        """Start idle."""
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def run(self, look: Callable[[], Coroutine[object, object, None]]) -> None:
        """Return when a refresh that began after this call has ended; raise what it raised."""
        if self._next is None:
            self._next = asyncio.create_task(self._turn(self._running, look))
        # Shielded: cancelling one caller must not cancel the shared refresh.
        await asyncio.shield(self._next)

    async def _turn(
        self,
        before: "asyncio.Task[None] | None",
        look: Callable[[], Coroutine[object, object, None]],
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        await look()


class _Entry(NamedTuple, Generic[T]):
    answer: T
    kept_at: Instant


class AnswerCache(Generic[T]):
    """Answers about tokens, valid until an event that `affects_tokens` (docs/decisions/0025).

    Take `number` after `find` returned None and before the database is asked; an answer that is
    kept under a number was true when that number was read, or later. Keyed by digest: the tokens
    themselves are not kept. The caller checks what depends on the time.
    """

    __slots__ = ("_answers", "_mark", "_refresh", "_store", "number")

    def __init__(self, store: Store) -> None:
        """Start empty."""
        self._store = store
        self._refresh = SharedRefresh()
        self._mark: bytes | None = None
        self._answers: dict[bytes, _Entry[T]] = {}
        self.number = -1

    async def find(self, token: str, now: Instant) -> T | None:
        """Return the cached answer for this token, if nothing that affects tokens happened since.

        Asks the database only for a token that is known: concurrent callers share one query, and
        none is needed where the engine tells that nothing was committed.
        """
        digest = digest_of(token)
        if self.number < 0 or self._fresh(digest, now):
            await self._compare()
        entry = self._fresh(digest, now)
        metrics.CACHE.add("answers", "miss" if entry is None else "hit")
        return None if entry is None else entry.answer

    def add(self, token: str, number: int, answer: T, now: Instant) -> None:
        """Add an answer that was read after `number` was taken."""
        if number != self.number:
            return
        digest = digest_of(token)
        # Deleted first: a replaced entry would keep its place in the order of eviction.
        self._answers.pop(digest, None)
        while len(self._answers) >= MOST_KNOWN:
            del self._answers[next(iter(self._answers))]
        self._answers[digest] = _Entry(answer, now)

    async def from_replica(self, work: Callable[[Transaction], R | None]) -> tuple[int, R] | None:
        """Return what `work` finds on a replica, and the number under which that may be added.

        The replica has every event that `affects_tokens` which was committed before this call, as
        an answer that is cached has: so `work` returns what could be cached, and None for
        anything else, above all for what it does not find, which may be too new for the replica.
        A refusal counts as None. None: ask the primary (docs/decisions/0080).
        """
        if not self._store.engine.has_replica():
            return None
        await self._refresh.run(self._read)
        number = self.number

        def checked(tx: Transaction) -> R | None:
            require_token_state(tx.db, number)
            try:
                return work(tx)
            except Refused:
                return None

        result = await self._store.read_replica(checked)
        return None if result is None else (number, result)

    def _fresh(self, digest: bytes, now: Instant) -> "_Entry[T] | None":
        entry = self._answers.get(digest)
        return entry if entry is not None and 0 <= now - entry.kept_at < _LONGEST else None

    async def _compare(self) -> None:
        mark = self._store.engine.mark()
        if mark is None:
            await self._refresh.run(self._read)
        elif mark != self._mark:
            await self._read()
            self._mark = mark

    async def _read(self) -> None:
        number = await self._store.read_one(lambda tx: token_state(tx.db))
        if number != self.number:
            self.number, self._answers = number, {}


def digest_of(token: str) -> bytes:
    """Return the key under which what is known of a token is cached."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


_ANY = 2**53
_UID = re.compile(r"[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class Read:
    """The content of an access token of either format. `uid` is None for a client's own."""

    token_id: str
    client_id: str
    grant_id: str | None
    subject: str
    uid: int | None
    scope: Scope
    audience: str
    issued_at: Instant
    expires_at: Instant
    by_reference: bool
    actors: tuple[str, ...] = ()
    claims: Claims = field(default_factory=lambda: NO_CLAIMS)

    def is_live(self, now: Instant) -> bool:
        """Return whether it has not expired and was not issued in the future."""
        return is_live(self.issued_at, self.expires_at, now)


class TokenState(Struct, frozen=True):
    """A token and its liveness; `grant` and `user` are set if the query for that read them.

    `of_user` are the declared claims that introspection adds for the token's API.
    """

    read: Read
    liveness: Liveness
    grant: Grant | None = None
    user: User | None = None
    of_user: Claims = NO_CLAIMS


class _Verified:
    """Cache of verified JWTs by digest.

    Bounded, evicting the oldest; emptied when the signing keys change. Liveness of what a token
    depends on is not cached here.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._keys: KeySet | None = None
        self._reads: dict[bytes, Read] = {}

    def find(self, digest: bytes, keys: KeySet, now: Instant) -> Read | None:
        """Return the cached content, if verified by these same keys and not expired."""
        read = self._reads.get(digest) if keys is self._keys else None
        if read is None or read.expires_at <= now:
            metrics.CACHE.add("signatures", "miss")
            return None
        metrics.CACHE.add("signatures", "hit")
        return read

    def add(self, digest: bytes, keys: KeySet, read: Read) -> None:
        """Add a verified token."""
        if keys is not self._keys:
            self._keys, self._reads = keys, {}
        while len(self._reads) >= MOST_KNOWN:
            del self._reads[next(iter(self._reads))]
        self._reads[digest] = read


@dataclass(frozen=True, slots=True)
class AccessTokenReader:
    """Reads this server's access tokens and what they depend on.

    `audience` is the default API's identifier: `find_live` returns no token for another API.
    """

    issuer: str
    audience: str
    keys: SigningKeyRing
    fingerprints: FingerprintKey
    _verified: _Verified = field(default_factory=_Verified, repr=False, compare=False)

    async def read_by_value(self, token: str, now: Instant) -> Read | None:
        """Return the content of a JWT; None if it is not ours or not live."""
        read = await self.read_unexpired(token, now)
        return read if read is not None and read.is_live(now) else None

    async def read_unexpired(self, token: str, now: Instant) -> Read | None:
        """Return the content of a JWT, even of one issued in the future, to revoke it."""
        if token.count(".") != 2:  # noqa: PLR2004 - header, claims, signature
            return None
        await self.keys.refresh(now)
        digest = digest_of(token)
        cached_read = self._verified.find(digest, self.keys.published(now), now)
        if cached_read is not None:
            return cached_read
        read = await self._read_by_value(token, now)
        if read is not None:
            self._verified.add(digest, self.keys.published(now), read)
        return read

    async def _read_by_value(self, token: str, now: Instant) -> Read | None:
        try:
            claims = self._verify(token, now)
        except Refused as refused:
            if refused.refusal.check != access_token.UNKNOWN_KEY:
                return None
            await self.keys.refresh(now, surely=True)
            try:
                claims = self._verify(token, now)
            except Refused:
                return None
        uid = None
        if claims.grant_id is not None:
            # Only a holder of our signing key could cause this; it is still refused, not a crash.
            if _UID.fullmatch(claims.subject) is None:
                return None
            uid = int(claims.subject)
        return Read(
            token_id=claims.token_id,
            client_id=claims.client_id,
            grant_id=claims.grant_id,
            subject=claims.subject,
            uid=uid,
            scope=claims.scope,
            audience=claims.audience,
            issued_at=claims.issued_at,
            expires_at=claims.expires_at,
            by_reference=False,
            actors=claims.actors,
            claims=claims.claims,
        )

    def _verify(self, token: str, now: Instant) -> AccessToken:
        return access_token.verify(
            token,
            self.keys.published(now),
            issuer=self.issuer,
            audience=None,
            now=now,
            # Those of declared APIs; the key says which of them made the signature.
            algorithms=tuple(Algorithm),
            # Compared with the time at each use.
            ahead=_ANY,
        )

    def find_by_reference(self, tx: Transaction, token: str) -> Read | None:
        """Return what a reference token refers to, live or not."""
        looked_up = self._look_up(tx, token)
        return None if looked_up is None else _read(looked_up[0])

    def find_live(
        self, tx: Transaction, token: str, read: Read | None, now: Instant
    ) -> TokenState | None:
        """Return a token for the default API together with its liveness.

        `read` is the result of `read_by_value` for the same token.
        """
        if read is not None and read.audience != self.audience:
            return None
        state = self.find_for_any_api(tx, token, read, now)
        return state if state is not None and state.read.audience == self.audience else None

    def find_for_any_api(
        self, tx: Transaction, token: str, read: Read | None, now: Instant
    ) -> TokenState | None:
        """Return a token of any API; the caller decides who may know of it."""
        state = (
            self.find_unexpired_reference(tx, token, now)
            if read is None
            else _found_by_value(tx, read)
        )
        if state is None:
            return None
        read = state.read
        if read.audience != self.audience and tx.revocations.ended_api(
            read.audience, read.issued_at
        ):
            return replace(state, liveness=replace(state.liveness, token_revoked=True))
        return state

    def find_unexpired_reference(
        self, tx: Transaction, token: str, now: Instant
    ) -> TokenState | None:
        """Return an unexpired reference token of any API by one statement at most.

        Its liveness does not include whether an API other than the default one has ended.
        """
        looked_up = self._look_up(tx, token)
        if looked_up is None:
            return None
        state = TokenState(_read(looked_up[0]), looked_up[1])
        return state if state.read.is_live(now) else None

    def revoke(self, tx: Transaction, read: Read, token: str, now: Instant) -> bool:
        """Revoke one token. Exactly one of several concurrent calls returns True."""
        if read.by_reference:
            print_ = self.fingerprints.fingerprint(ACCESS_TOKEN, token)
            return tx.access_tokens.revoke(read.token_id, print_, read.audience, now)
        # Kept until a token that was issued in the future has expired.
        return tx.revocations.add_once(
            RevokedKind.TOKEN, read.token_id, now, read.audience, read.issued_at
        )

    def _look_up(self, tx: Transaction, token: str) -> tuple[ReferenceToken, Liveness] | None:
        if not is_reference(token):
            return None
        return tx.access_tokens.find(self.fingerprints.fingerprint(ACCESS_TOKEN, token))


def is_reference(token: str) -> bool:
    """Return whether the text is a well-formed reference token, live or not."""
    return well_formed(Prefix.ACCESS_TOKEN, token)


def _found_by_value(tx: Transaction, read: Read) -> TokenState:
    if read.grant_id is None:
        revoked = tx.revocations.covers(read.token_id, read.client_id, read.issued_at)
        client = tx.clients.find(read.client_id)
        disabled = client is None or client.disabled_at is not None
        return TokenState(read, Liveness(client_disabled=disabled, token_revoked=revoked))
    row = tx.grants.find_of_token(read.grant_id, read.token_id, read.client_id, read.issued_at)
    # A grant that was deleted has ended.
    if row is None:
        return TokenState(read, Liveness(grant_revoked=True))
    liveness, user = row
    return TokenState(read, liveness.liveness, liveness.grant, user)


def _read(token: ReferenceToken) -> Read:
    return Read(
        token_id=token.id,
        client_id=token.client_id,
        grant_id=token.grant_id,
        subject=token.client_id if token.uid is None else str(token.uid),
        uid=token.uid,
        scope=token.scope,
        audience=token.audience,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        by_reference=True,
        actors=token.actors,
        claims=decoded(token.claims),
    )
