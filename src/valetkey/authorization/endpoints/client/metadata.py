"""Public documents: discovery (RFC 8414) and the key set (RFC 7517)."""

from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.protocol.metadata import ServerFacts, server_metadata
from valetkey.authorization.storage.revision import revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.read import SharedRefresh
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.replace import replace
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


class _Rendered(Struct):
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
                for each in tx.claims()
                if not {ClaimLocation.ID_TOKEN, ClaimLocation.USERINFO}.isdisjoint(each.places)
            ],
            unsigned_requests=tx.clients.any_unsigned_requests(),
        )


class _RenderedKeys(Struct):
    keys: KeySet | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class KeysEndpoint:
    """The public keys: next, current and retiring. Rendered again only after they changed."""

    keys: SigningKeyRing
    rendered: _RenderedKeys = field(default_factory=_RenderedKeys)
    together: SharedRefresh = field(default_factory=SharedRefresh, repr=False, compare=False)

    async def __call__(self, request: Request) -> Response:
        """Return the key set; it may be cached for five minutes."""
        # The caller has met an unknown key, or caches the response for minutes.
        if self.keys.must_ask:
            await self.together.run(lambda: self.keys.refresh(request.at, surely=True))
        else:
            await self.keys.refresh(request.at, surely=True)
        keys, rendered = self.keys.published(request.at), self.rendered
        if keys is not rendered.keys:
            rendered.keys, rendered.body = keys, keys.document()
        return Response(200, rendered.body, _KEYS_HEADERS)
