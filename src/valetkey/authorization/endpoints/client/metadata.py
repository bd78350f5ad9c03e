"""Public documents: discovery (RFC 8414), the key set (RFC 7517), the session iframe."""

from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files

import msgspec
from msgspec import Struct

from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.protocol.metadata import ServerFacts, server_metadata
from valetkey.authorization.storage.revision import revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.read import SharedRefresh
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.url import append_query
from valetkey.web.body import read_parameters
from valetkey.web.exchange import Pairs, Request, Response, html_response, see_other

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
                claim.name
                for claim in tx.claims()
                if not {ClaimLocation.ID_TOKEN, ClaimLocation.USERINFO}.isdisjoint(claim.places)
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


_FILE = files("valetkey.authorization.endpoints.client") / "check_session.js"
_SCRIPT = _FILE.read_text(encoding="utf-8")


class StartEndpoint(Struct, frozen=True):
    """Redirects to the URL at which an app starts its sign-in."""

    server: Server

    async def get(self, request: Request) -> Response:
        """Redirect to the app with the issuer; nothing about the user is sent.

        Refused with `not_found` for an app that is unknown or disabled, or has no such address.
        """
        client_id = read_parameters(request.query).get("client_id") or ""
        client = await self.server.directory.find(client_id) if client_id else None
        if client is None or client.disabled_at or not client.openid.initiate_login_uri:
            raise Refused.because(
                ErrorCode.NOT_FOUND,
                "no app of that client_id can be opened from here",
                "start.client",
                "a client with an initiate_login_uri",
            )
        # No login_hint: it would reveal the user to an app without consent.
        issuer = (("iss", self.server.issuer),)
        return see_other(append_query(client.openid.initiate_login_uri, issuer))


class CheckSessionFrame(Struct, frozen=True):
    """The frame as bytes, and the policy that allows its one script and any embedding page."""

    body: bytes
    policy: str


def check_session_frame(cookie_name: str) -> CheckSessionFrame:
    """Return the frame that reads the session state from the cookie of this name."""
    script = _SCRIPT.replace("COOKIE", cookie_name)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    body = (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Session</title>'
        f"<script>{script}</script></html>"
    )
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors *"
    )
    return CheckSessionFrame(body.encode(), policy)


CHECK_SESSION = "/oauth/check-session"

# Lets cross-origin isolated pages embed this frame.
_FRAMEABLE = (("x-frame-options", ""), ("cross-origin-resource-policy", "cross-origin"))


class CheckSessionEndpoint(Struct, frozen=True):
    """Serves the same frame to everyone: it reads what it compares from the browser."""

    frame: CheckSessionFrame

    async def get(self, request: Request) -> Response:
        """Return the frame."""
        return html_response(self.frame.body, 200, self.frame.policy, _FRAMEABLE)
