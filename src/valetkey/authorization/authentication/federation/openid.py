"""Any OpenID provider, discovered by its issuer (OpenID Connect Core and Discovery)."""

import base64
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec

from valetkey.authorization.authentication.federation.provider import (
    LONGEST_SUBJECT,
    NEVER_ISSUED,
    ClaimedIdentity,
    ProviderConnection,
    UpstreamState,
    address,
    code_of,
    fetched,
    kept_claims,
    one_line,
    only_code_refused,
    plain,
    unusable,
)
from valetkey.authorization.protocol.pkce import challenge_of
from valetkey.config.sections.federation import ProviderSettings
from valetkey.fetch.outbound import JSON, Fetched
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, later, minutes, seconds
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import same
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import append_query, parse_url

LIFE = minutes(10)
"""How long a provider's metadata is cached."""

_BETWEEN_FETCHES = seconds(10)
_CLOCKS = 60
"""Allowed clock difference between the provider and this server, in seconds."""

_ROUNDED = 2
"""Two differences of times in whole seconds differ by less than this."""

_KEY_TYPES = ("application/json", "application/jwk-set+json")
_SCOPES = ("openid", "email", "profile")
_BASIC, _POST = "client_secret_basic", "client_secret_post"


class _Metadata(msgspec.Struct, frozen=True):
    """The used members of a discovery document (Discovery section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = (_BASIC,)
    userinfo_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""


@dataclass(slots=True)
class _CachedMetadata:
    """A provider's metadata and when it was fetched."""

    metadata: _Metadata | None = None
    metadata_at: Instant = Instant(0)
    keys: KeySet = field(default_factory=KeySet)
    keys_at: Instant = Instant(0)
    newest_at: Instant = Instant(0)


@dataclass(frozen=True, slots=True)
class OpenIdProvider:
    """Request a code with PKCE and a nonce, and verify the ID token."""

    line: ProviderConnection
    _known: _CachedMetadata = field(default_factory=_CachedMetadata, repr=False)

    @property
    def settings(self) -> ProviderSettings:
        """Return its configuration."""
        return self.line.settings

    async def authorization_url(self, upstream_state: UpstreamState) -> str:
        """Return the authorization request (Core section 3.1.2.1)."""
        metadata = await self._metadata()
        pairs = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": upstream_state.callback,
            "scope": " ".join(dict.fromkeys((*_SCOPES, *self.settings.scopes))),
            "state": upstream_state.state,
            "nonce": upstream_state.nonce,
            "code_challenge": challenge_of(upstream_state.verifier),
            "code_challenge_method": "S256",
        }
        if upstream_state.fresh:
            # `max_age` makes `auth_time` a required claim (Core section 2), and works at providers
            # that ignore `prompt`.
            pairs |= {"prompt": "login", "max_age": "0"}
        return append_query(metadata.authorization_endpoint, pairs.items())

    async def read(
        self, answer: Mapping[str, str], upstream_state: UpstreamState, now: Instant
    ) -> ClaimedIdentity:
        """Return the identity in the ID token (Core section 3.1.3.7)."""
        metadata = await self._metadata()
        # RFC 9207: another server's response must not be accepted as this one's.
        named = answer.get("iss")
        if named is None and metadata.authorization_response_iss_parameter_supported:
            raise unusable(self.settings, "iss")
        if named is not None and named != metadata.issuer:
            raise unusable(self.settings, "iss")
        tokens = await self._redeem(code_of(answer, self.settings), upstream_state, metadata)
        claims = await self._verified(tokens.id_token, metadata, now)
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not same(nonce, upstream_state.nonce):
            raise unusable(self.settings, "nonce")
        auth_time = self._auth_time(claims, upstream_state, now)
        several = isinstance(claims.get("aud"), list)
        if claims.get("azp", None if several else self.settings.client_id) not in {
            self.settings.client_id,
            None,
        }:
            raise unusable(self.settings, "azp")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject.isprintable():
            raise unusable(self.settings, "sub")
        if not 0 < len(subject) <= LONGEST_SUBJECT:
            raise unusable(self.settings, "sub")
        said: Mapping[str, object] = claims
        kept = claims
        misses_kept = any(name not in claims for name in self.settings.keep_claims)
        if "email" not in claims or misses_kept:
            # Core section 5.4: with an access token, scope claims are at the UserInfo endpoint.
            more = await self._userinfo(
                tokens.access_token, subject, metadata, required=misses_kept
            )
            said = said if "email" in claims else more
            kept = {**more, **claims}
        return ClaimedIdentity(
            issuer=metadata.issuer,
            subject=subject,
            email=address(said.get("email")),
            # Only JSON true: some providers send "true", and one did so for unverified addresses.
            email_verified=said.get("email_verified") is True,
            name=plain(said.get("name")),
            username=plain(said.get("preferred_username")),
            kept=kept_claims(self.settings, kept),
            auth_time=auth_time,
        )

    def _auth_time(
        self, claims: jwt.Claims, upstream_state: UpstreamState, now: Instant
    ) -> Instant | None:
        """Return when the user authenticated; refused if it had to be after the departure.

        A user who removed the parameters from the URL, or a provider that ignores them, must not
        pass as re-authenticated.
        """
        said = claims.get("auth_time")
        at = Instant(min(said, now)) if type(said) is int and said >= 0 else None
        if not upstream_state.fresh:
            return at
        departed_at, issued_at = upstream_state.departed_at, claims.get("iat")
        if at is None or not departed_at or type(said) is not int or type(issued_at) is not int:
            raise unusable(self.settings, "auth_time")
        # Both times of the provider, so that a difference of clocks does not count.
        is_older = issued_at - said > now - departed_at + _ROUNDED
        if is_older or not departed_at - _CLOCKS <= said <= now + _CLOCKS:
            raise unusable(self.settings, "auth_time")
        return at

    async def _userinfo(
        self, token: str, subject: str, metadata: _Metadata, *, required: bool
    ) -> Mapping[str, object]:
        if not metadata.userinfo_endpoint or not token:
            return {}
        authorization = f"Bearer {one_line(token)}"
        asking = self.line.http.get_authorized(
            metadata.userinfo_endpoint, authorization=authorization
        )
        try:
            answered = await fetched(asking, self.settings, "userinfo")
        except Refused:
            # Kept claims must not end because the provider fails for a moment.
            if required:
                raise
            # The identity is proven; its other claims are optional.
            return {}
        said = read_object(answered.body) or {}
        # Core section 5.3.2: another user's response must not be accepted.
        return said if said.get("sub") == subject else {}

    async def probe(self, upstream_state: UpstreamState) -> None:
        """Fetch the metadata and the keys, and send a token request with an unknown code."""
        fresh = OpenIdProvider(self.line)
        metadata = await fresh._metadata()
        if not await fresh._keys(metadata, newest=False):
            raise unusable(self.settings, "keys")
        asking = fresh._token_request(NEVER_ISSUED, upstream_state, metadata)
        await only_code_refused(asking, self.settings)

    async def _redeem(
        self, code: str, upstream_state: UpstreamState, metadata: _Metadata
    ) -> _Tokens:
        asking = self._token_request(code, upstream_state, metadata)
        answered = await fetched(asking, self.settings, "token")
        try:
            return msgspec.json.decode(answered.body, type=_Tokens)
        except msgspec.MsgspecError:
            raise unusable(self.settings, "token") from None

    def _token_request(
        self, code: str, upstream_state: UpstreamState, metadata: _Metadata
    ) -> Awaitable[Fetched]:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": upstream_state.callback,
            "code_verifier": upstream_state.verifier,
        }
        authorization = ""
        methods = metadata.token_endpoint_auth_methods_supported
        if _BASIC in methods or _POST not in methods:
            authorization = basic(self.settings.client_id, self.line.secret.reveal())
        else:
            secret = self.line.secret.reveal()
            fields |= {"client_id": self.settings.client_id, "client_secret": secret}
        return self.line.http.post_form(
            metadata.token_endpoint, fields, accept=JSON, authorization=authorization
        )

    async def verify_assertion(
        self, token: str, *, typ: str, audience: str, now: Instant
    ) -> jwt.Claims:
        """Return the claims of a live JWT of this type that the provider signed for `audience`.

        Clients can send any number of these: newer keys are fetched for an unknown one at most
        every 10 seconds. Raises Refused.
        """
        metadata = await self._metadata()
        return await self._verified(token, metadata, now, typ=(typ,), audience=audience)

    async def _verified(
        self,
        token: str,
        metadata: _Metadata,
        now: Instant,
        *,
        typ: Collection[str] = ("jwt", ""),
        audience: str = "",
    ) -> jwt.Claims:
        for newest in (False, True):
            keys = await self._keys(metadata, newest=newest)
            try:
                return jwt.verify(
                    token,
                    keys,
                    typ=typ,
                    algorithms=tuple(Algorithm),
                    issuer=metadata.issuer,
                    audience=audience or self.settings.client_id,
                    now=now,
                    leeway=_CLOCKS,
                )
            except Refused as refused:
                # The provider may have just rotated its keys.
                if refused.refusal.check != jwt.UNKNOWN_KEY or newest:
                    raise unusable(self.settings, refused.refusal.check) from None
        raise unusable(self.settings, jwt.UNKNOWN_KEY)

    async def _metadata(self) -> _Metadata:
        known, now = self._known, self.line.now()
        if known.metadata is not None and later(known.metadata_at, LIFE) > now:
            return known.metadata
        issuer = self.settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            answered = await fetched(self.line.http.get(url), self.settings, "discovery")
        except Refused:
            if known.metadata is not None:
                # The provider is unreachable: the cached metadata still applies.
                return known.metadata
            raise
        try:
            found = msgspec.json.decode(answered.body, type=_Metadata)
        except msgspec.MsgspecError:
            raise unusable(self.settings, "discovery") from None
        # Discovery section 4.3: otherwise one server could impersonate another.
        if found.issuer != issuer:
            raise unusable(self.settings, "discovery_issuer")
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            web = parse_url(endpoint)
            if web is None or (web.scheme != "https" and not web.is_loopback()):
                raise unusable(self.settings, "discovery_endpoint")
        known.metadata, known.metadata_at = found, now
        return found

    async def _keys(self, metadata: _Metadata, *, newest: bool) -> KeySet:
        known, now = self._known, self.line.now()
        wait = _BETWEEN_FETCHES if newest else LIFE
        at = known.newest_at if newest else known.keys_at
        if at and later(at, wait) > now:
            return known.keys
        if newest:
            known.newest_at = now
        answered = await fetched(
            self.line.http.get(metadata.jwks_uri, accept=_KEY_TYPES), self.settings, "keys"
        )
        try:
            known.keys = KeySet.parse(answered.body, ignore_unknown=True)
        except Refused:
            raise unusable(self.settings, "keys") from None
        known.keys_at = now
        return known.keys


def basic(client_id: str, secret: str) -> str:
    """Return the Authorization field of a client (RFC 6749 section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode('ascii')).decode('ascii')}"
