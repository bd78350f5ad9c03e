"""Public documents: discovery (RFC 8414) and the key set (RFC 7517)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace

import msgspec

from valetkey.authorization.model.register.claim import Place
from valetkey.authorization.protocol.metadata import ServerFacts, server_metadata
from valetkey.authorization.storage.revision import revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.web.exchange import Pairs, Request, Response

_METADATA_HEADERS: Pairs = (
    ("content-type", "application/json"),
    ("cache-control", "public, max-age=60"),
    ("access-control-allow-origin", "*"),
)
_KEYS_HEADERS: Pairs = (
    ("content-type", "application/jwk-set+json"),
    ("cache-control", "public, max-age=300"),
    ("access-control-allow-origin", "*"),
)


@dataclass(slots=True)
class _Rendered:
    changed: int = -1
    revision: int = -1
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class MetadataEndpoint:
    """The server's metadata, rendered again only after clients changed.

    `facts` have `implicit` set if self-registered clients may use that grant.
    """

    store: Store
    facts: ServerFacts
    rendered: _Rendered = field(default_factory=_Rendered)

    async def __call__(self, request: Request) -> Response:
        """Return the document, at most a second old."""
        changed = self.store.engine.changed()
        if changed != self.rendered.changed:
            await self._render(changed)
        return Response(200, self.rendered.body, _METADATA_HEADERS)

    async def _render(self, changed: int) -> None:
        number = await self.store.read_one(lambda tx: revision(tx.db))
        if number != self.rendered.revision:
            facts = await self.store.read(self._facts)
            document = server_metadata(facts)
            self.rendered.body = msgspec.json.encode(document)
            self.rendered.revision = number
        self.rendered.changed = changed

    def _facts(self, tx: Transaction) -> ServerFacts:
        return replace(
            self.facts,
            implicit=self.facts.implicit or tx.clients.any_implicit(),
            password=tx.clients.any_password(),
            declared_claims=[
                each.name
                for each in tx.declarations.claims()
                if not {Place.ID_TOKEN, Place.USERINFO}.isdisjoint(each.places)
            ],
            unsigned_requests=tx.clients.any_unsigned_requests(),
        )


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


@dataclass(frozen=True, slots=True)
class KeysEndpoint:
    """The public keys: next, current and retiring."""

    keys: SigningKeyRing
    together: SharedRefresh = field(default_factory=SharedRefresh, repr=False, compare=False)

    async def __call__(self, request: Request) -> Response:
        """Return the key set; it may be cached for five minutes."""
        # The caller has met an unknown key, or caches the response for minutes.
        if self.keys.must_ask:
            await self.together.run(lambda: self.keys.refresh(request.at, surely=True))
        else:
            await self.keys.refresh(request.at, surely=True)
        return Response(200, self.keys.published(request.at).document(), _KEYS_HEADERS)
