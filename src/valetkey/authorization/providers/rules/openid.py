"""Sign-in at OpenID providers, and at GitHub."""

import base64
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from hashlib import sha256, sha384, sha512
from http import HTTPStatus
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.authorization_request import challenge_of
from valetkey.authorization.providers.rules.identities import (
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
from valetkey.authorization.providers.settings import ProviderSettings
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.storage.transaction import Transaction
from valetkey.fetch.outbound import ANYTHING, JSON, Fetched, Unfetchable
from valetkey.kernel.jose import foreign, jwt, mac
from valetkey.kernel.jose.foreign import ForeignKeys
from valetkey.kernel.moment import Instant, days, later, minutes, seconds
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import same, to_base64url
from valetkey.kernel.strict_json import read_foreign_object
from valetkey.kernel.url import append_query, parse_url

LIFE = minutes(10)
"""How long a provider's metadata is cached."""

_BETWEEN_FETCHES = seconds(10)
_CLOCKS = 60
"""Allowed clock difference between the provider and this server, in seconds."""

_ROUNDED = 2
"""Two differences of times in whole seconds differ by less than this."""

_OLDEST = days(1)
"""Maximum age of an ID token; the nonce binds it to one sign-in."""

_ID_TOKEN_TYPES = ("", "jwt", "id_token+jwt")
_JWT = "application/jwt"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SUBJECT = f"1 to {LONGEST_SUBJECT} printable characters"
_AT_HASHES = {"256": sha256, "384": sha384, "512": sha512}
_SCOPES = ("openid", "email", "profile")
_BASIC, _POST = "client_secret_basic", "client_secret_post"
_PRIVATE_KEY = "private_key_jwt"

_APPLE = "https://appleid.apple.com"
"""It answers in a query, too, but not where email address and name are requested."""

_LINE = "https://access.line.me"
"""It signs ID tokens of web apps with the client secret, and announces ES256 only."""


class _Metadata(msgspec.Struct, frozen=True):
    """The used members of a discovery document (Discovery section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = (_BASIC,)
    userinfo_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False
    id_token_signing_alg_values_supported: tuple[str, ...] = ()
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] = ()
    response_modes_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] = ("S256",)


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""


@dataclass(slots=True)
class _CachedMetadata:
    """A provider's metadata and when it was fetched."""

    metadata: _Metadata | None = None
    metadata_at: Instant = Instant(0)
    keys: ForeignKeys = field(default_factory=ForeignKeys)
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
            **_challenge(metadata, upstream_state.verifier),
        }
        if metadata.issuer == _APPLE or metadata.response_modes_supported == ("form_post",):
            pairs["response_mode"] = "form_post"
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
            raise unusable(self.settings, "iss", "no iss", metadata.issuer)
        if named is not None and named != metadata.issuer:
            raise unusable(self.settings, "iss", named, metadata.issuer)
        tokens = await self._redeem(code_of(answer, self.settings), upstream_state, metadata)
        # Not for assertions: a client presents those, and may know a secret of its own provider.
        verified = await self._verified(
            tokens.id_token, metadata, now, algorithm=_shared_algorithm(tokens.id_token, metadata)
        )
        claims = verified.claims
        subject = self._check_claims(claims, upstream_state, now)
        self._check_access_token(verified, tokens.access_token)
        auth_time = self._auth_time(claims, upstream_state, now)
        identity: Mapping[str, object] = claims
        kept = claims
        misses_kept = any(name not in claims for name in self.settings.keep_claims)
        if "email" not in claims or misses_kept:
            # Core section 5.4: with an access token, scope claims are at the UserInfo endpoint.
            try:
                more = await self._userinfo(tokens.access_token, subject, metadata, now)
            except Refused:
                # Kept claims must not end because of it; the identity is proven without.
                if misses_kept:
                    raise
                more = {}
            identity = identity if "email" in claims else more
            kept = {**more, **claims}
        return ClaimedIdentity(
            issuer=metadata.issuer,
            subject=subject,
            email=address(identity.get("email")),
            # Apple and Cognito write the boolean as a string.
            email_verified=identity.get("email_verified") is True
            or identity.get("email_verified") == "true",
            name=plain(identity.get("name")),
            username=plain(identity.get("preferred_username")),
            kept_claims=kept_claims(self.settings, kept),
            auth_time=auth_time,
        )

    def _check_claims(self, claims: jwt.Claims, upstream_state: UpstreamState, now: Instant) -> str:
        """Return the subject (Core section 3.1.3.7, numbers 3 to 5, 10 and 11).

        Numbers 2 and 6 to 9 are those of `foreign.verify`; 1 does not apply, 12 neither.
        """
        settings = self.settings
        issued_at = claims.get("iat")
        if type(issued_at) is not int:
            raise unusable(settings, "iat", "no iat", "an ID token with iat")
        if issued_at < now - _OLDEST:
            raise unusable(settings, "iat", str(issued_at), f"at least {now - _OLDEST}")
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not same(nonce, upstream_state.nonce):
            received = "no nonce" if nonce is None else "another one"
            raise unusable(settings, "nonce", received, "the nonce of this sign-in")
        named, azp = claims.get("aud"), claims.get("azp")
        several = isinstance(named, list) and len({*cast("list[str]", named)}) > 1
        if azp != settings.client_id and (several or azp is not None):
            received = "no azp beside several audiences" if azp is None else str(azp)
            raise unusable(settings, "azp", received, settings.client_id)
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject.isprintable():
            raise unusable(settings, "sub", expected=_SUBJECT)
        if not 0 < len(subject) <= LONGEST_SUBJECT:
            raise unusable(settings, "sub", f"{len(subject)} characters", _SUBJECT)
        return subject

    def _check_access_token(self, verified: foreign.Verified, access_token: str) -> None:
        """Refuse an access token that does not belong to the ID token (Core section 3.1.3.8).

        The hash of EdDSA is not defined, so it is not compared.
        """
        at_hash, bits = verified.claims.get("at_hash"), verified.header.alg[2:]
        if not isinstance(at_hash, str) or not access_token or bits not in _AT_HASHES:
            return
        digest = _AT_HASHES[bits](access_token.encode("utf-8", "surrogatepass")).digest()
        if not same(at_hash.rstrip("="), to_base64url(digest[: len(digest) // 2])):
            raise unusable(self.settings, "at_hash", "another", "the hash of the access token")

    def _auth_time(
        self, claims: jwt.Claims, upstream_state: UpstreamState, now: Instant
    ) -> Instant | None:
        """Return when the user authenticated; refused if it had to be after the departure.

        A user who removed the parameters from the URL, or a provider that ignores them, must not
        pass as re-authenticated.
        """
        auth_time = claims.get("auth_time")
        at = Instant(min(auth_time, now)) if type(auth_time) is int and auth_time >= 0 else None
        if not upstream_state.fresh:
            return at
        departed_at, issued_at = upstream_state.departed_at, claims.get("iat")
        expected = f"authentication at {departed_at} or later"
        if (
            at is None
            or not departed_at
            or type(auth_time) is not int
            or type(issued_at) is not int
        ):
            raise unusable(self.settings, "auth_time", "no auth_time", expected)
        # Both times of the provider, so that a difference of clocks does not count.
        is_older = issued_at - auth_time > now - departed_at + _ROUNDED
        if is_older or not departed_at - _CLOCKS <= auth_time <= now + _CLOCKS:
            raise unusable(self.settings, "auth_time", str(auth_time), expected)
        return at

    async def _userinfo(
        self, token: str, subject: str, metadata: _Metadata, now: Instant
    ) -> Mapping[str, object]:
        """Return the claims at the UserInfo endpoint, none if the provider has no such endpoint.

        Refused unless they are readable and of this user.
        """
        settings = self.settings
        if not metadata.userinfo_endpoint:
            return {}
        if not token:
            raise unusable(settings, "userinfo", "no access token", "an access token")
        asking = self.line.http.get_authorized(
            metadata.userinfo_endpoint,
            authorization=f"Bearer {one_line(token)}",
            accept=(*JSON, _JWT),
        )
        answered = await fetched(asking, settings, "userinfo")
        if answered.media_type == _JWT:
            text = answered.body.decode("ascii", "replace").strip()
            try:
                algorithm = _shared_algorithm(text, metadata)
                verified = await self._verified(
                    text, metadata, now, sparse=True, algorithm=algorithm
                )
                claims = verified.claims
            except Refused as refused:
                why = refused.refusal
                received = f"{why.check.removeprefix('federation.')}: {why.received}"
                raise unusable(settings, "userinfo", received, why.expected) from None
        else:
            read = read_foreign_object(answered.body)
            if read is None:
                raise unusable(settings, "userinfo", "no JSON object", "a JSON object")
            claims = read
        # Core section 5.3.2: another user's response must not be accepted.
        if claims.get("sub") != subject:
            raise unusable(settings, "userinfo", "another sub", "the sub of the ID token")
        return claims

    async def probe(self, upstream_state: UpstreamState) -> None:
        """Fetch metadata and keys, send a token request with an unknown code, compare the clocks.

        Refused also if no published key can verify an ID token of an announced algorithm.
        """
        fresh = OpenIdProvider(self.line)
        metadata = await fresh._metadata()
        keys = await fresh._keys(metadata, newest=False)
        announced = metadata.id_token_signing_alg_values_supported
        usable = [
            algorithm
            for algorithm in announced or foreign.ALGORITHMS
            if algorithm in foreign.ALGORITHMS
        ]
        by_secret = _signs_with_secret(metadata)
        if not usable and not by_secret:
            accepted = " or ".join(foreign.ALGORITHMS)
            raise unusable(self.settings, "jwt.alg", ", ".join(announced), accepted)
        if not by_secret and not any(keys.verifies_any(algorithm) for algorithm in usable):
            received = f"{len(keys)} usable keys"
            raise unusable(self.settings, "keys", received, f"a key for {' or '.join(usable)}")
        asking = fresh._token_request(NEVER_ISSUED, upstream_state, metadata)
        answered = await only_code_refused(asking, self.settings)
        ahead = _clock_ahead(answered.date, self.line.now())
        if abs(ahead) > _CLOCKS:
            difference = f"{abs(ahead)} s {'ahead' if ahead > 0 else 'behind'}"
            raise unusable(self.settings, "clock", difference, f"at most {_CLOCKS} s of difference")

    async def _redeem(
        self, code: str, upstream_state: UpstreamState, metadata: _Metadata
    ) -> _Tokens:
        asking = self._token_request(code, upstream_state, metadata)
        answered = await fetched(asking, self.settings, "token")
        try:
            return msgspec.json.decode(answered.body, type=_Tokens)
        except msgspec.MsgspecError:
            raise unusable(self.settings, "token") from None

    async def _token_request(
        self, code: str, upstream_state: UpstreamState, metadata: _Metadata
    ) -> Fetched:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": upstream_state.callback,
            "code_verifier": upstream_state.verifier,
        }
        authorization = ""
        methods = metadata.token_endpoint_auth_methods_supported
        sign = self.line.sign
        if _BASIC in methods or not {_POST, _PRIVATE_KEY} & {*methods}:
            authorization = basic(self.settings.client_id, self.line.secret.reveal())
        elif _POST in methods or sign is None:
            secret = self.line.secret.reveal()
            fields |= {"client_id": self.settings.client_id, "client_secret": secret}
        else:
            announced = metadata.token_endpoint_auth_signing_alg_values_supported
            fields |= {
                "client_id": self.settings.client_id,
                "client_assertion_type": _ASSERTION_TYPE,
                "client_assertion": await sign(
                    self.settings.client_id, metadata.token_endpoint, announced
                ),
            }
        return await self.line.http.post_form(
            metadata.token_endpoint, fields, accept=JSON, authorization=authorization
        )

    def linked_account(self, tx: Transaction, subject: str) -> Uid | None:
        """Return the account here that is linked with this user of the provider."""
        identity = Identities.of(tx).find(self.settings.issuer, subject)
        return None if identity is None else identity.uid

    async def verify_assertion(
        self, token: str, *, typ: str, audience: str, now: Instant
    ) -> jwt.Claims:
        """Return the claims of a live JWT of this type that the provider signed for `audience`.

        Clients can send any number of these: newer keys are fetched for an unknown one at most
        every 10 seconds. Raises Refused.
        """
        metadata = await self._metadata()
        verified = await self._verified(token, metadata, now, typ=(typ,), audience=audience)
        return verified.claims

    async def _verified(
        self,
        token: str,
        metadata: _Metadata,
        now: Instant,
        *,
        typ: Collection[str] = _ID_TOKEN_TYPES,
        audience: str = "",
        sparse: bool = False,
        algorithm: str = "",
    ) -> foreign.Verified:
        for newest in (False, True):
            keys = await self._keys(metadata, newest=newest)
            try:
                return foreign.verify(
                    token,
                    keys,
                    typ=typ,
                    issuer=metadata.issuer,
                    audience=audience or self.settings.client_id,
                    now=now,
                    leeway=_CLOCKS,
                    sparse=sparse,
                    algorithm=algorithm,
                    secret=self.line.secret,
                )
            except Refused as refused:
                refusal = refused.refusal
                # The provider may have just rotated its keys, or replaced one under its kid.
                if refusal.check not in foreign.WORTH_NEW_KEYS or newest:
                    raise unusable(
                        self.settings, refusal.check, refusal.received, refusal.expected
                    ) from None
        raise unusable(self.settings, jwt.UNKNOWN_KEY)

    async def _metadata(self) -> _Metadata:
        cached, now = self._known, self.line.now()
        if cached.metadata is not None and later(cached.metadata_at, LIFE) > now:
            return cached.metadata
        issuer = self.settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            answered = await fetched(self.line.http.get(url), self.settings, "discovery")
        except Refused:
            if cached.metadata is not None:
                # The provider is unreachable: the cached metadata still applies.
                return cached.metadata
            raise
        try:
            metadata = msgspec.json.decode(answered.body, type=_Metadata)
        except msgspec.MsgspecError:
            raise unusable(self.settings, "discovery") from None
        # Discovery section 4.3: otherwise one server could impersonate another.
        if metadata.issuer != issuer:
            raise unusable(self.settings, "discovery_issuer", metadata.issuer, issuer)
        for endpoint in (
            metadata.authorization_endpoint,
            metadata.token_endpoint,
            metadata.jwks_uri,
        ):
            web = parse_url(endpoint)
            if web is None or (web.scheme != "https" and not web.is_loopback()):
                raise unusable(self.settings, "discovery_endpoint", endpoint, "an https address")
        cached.metadata, cached.metadata_at = metadata, now
        return metadata

    async def _keys(self, metadata: _Metadata, *, newest: bool) -> ForeignKeys:
        cached, now = self._known, self.line.now()
        wait = _BETWEEN_FETCHES if newest else LIFE
        at = cached.newest_at if newest else cached.keys_at
        if at and later(at, wait) > now:
            return cached.keys
        try:
            # Concurrent calls share the request.
            answered = await fetched(
                self.line.http.get(metadata.jwks_uri, accept=ANYTHING), self.settings, "keys"
            )
        finally:
            cached.newest_at = now if newest else cached.newest_at
        try:
            cached.keys = ForeignKeys.parse(answered.body)
        except Refused as refused:
            reason = refused.refusal.description
            raise unusable(self.settings, "keys", reason, "a key set") from None
        cached.keys_at = now
        return cached.keys


def _challenge(metadata: _Metadata, verifier: str) -> dict[str, str]:
    """Return the PKCE parameters of the methods that the provider announces, S256 if it does not.

    The nonce protects a sign-in at a provider without PKCE against injected codes.
    """
    methods = metadata.code_challenge_methods_supported
    if "S256" in methods:
        return {"code_challenge": challenge_of(verifier), "code_challenge_method": "S256"}
    if "plain" in methods:
        return {"code_challenge": verifier, "code_challenge_method": "plain"}
    return {}


def _signs_with_secret(metadata: _Metadata) -> bool:
    announced = metadata.id_token_signing_alg_values_supported
    return mac.ALGORITHM in announced or metadata.issuer == _LINE


def _shared_algorithm(id_token: str, metadata: _Metadata) -> str:
    """Return HS256 if the provider signs with the client secret and this token says so, else "".

    Core section 3.1.3.7, number 8. Only for ID tokens that the token endpoint returned.
    """
    if not _signs_with_secret(metadata):
        return ""
    try:
        alg = jwt.header_of(id_token, foreign=True, longest=foreign.LONGEST).alg
    except Refused:
        return ""
    return alg if alg == mac.ALGORITHM else ""


def basic(client_id: str, secret: str) -> str:
    """Return the Authorization field of a client (RFC 6749 section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode('ascii')).decode('ascii')}"


def _clock_ahead(date: str, now: Instant) -> int:
    """Return how many seconds a Date header is ahead; 0 without a valid one."""
    try:
        return int(parsedate_to_datetime(date).timestamp()) - now
    except (ValueError, OverflowError):
        return 0


_T = TypeVar("_T")
_PUBLIC = "https://github.com"
_PUBLIC_API = "https://api.github.com"
_GITHUB_SCOPES = ("read:user", "user:email")
_MOST_ADDRESSES = 200


class _Token(msgspec.Struct, frozen=True):
    access_token: str


class _Person(msgspec.Struct, frozen=True):
    id: int
    login: str
    name: str | None = None


class _Address(msgspec.Struct, frozen=True):
    email: str
    primary: bool = False
    verified: bool = False


class GitHubProvider(Struct, frozen=True):
    """GitHub, or GitHub Enterprise at the configured address."""

    line: ProviderConnection

    @property
    def settings(self) -> ProviderSettings:
        """Return its configuration."""
        return self.line.settings

    async def authorization_url(self, upstream_state: UpstreamState) -> str:
        """Return the authorization request; refused if the user must authenticate again.

        GitHub can neither be asked for it, nor does it say when a user authenticated.
        """
        if upstream_state.fresh:
            raise Refused.because(
                ErrorCode.ACCESS_DENIED,
                "the app requires that you authenticate again, which this provider cannot ask for; "
                "sign in with another method",
                "federation.fresh",
                "a provider that can authenticate users again",
            )
        pairs = {
            "client_id": self.settings.client_id,
            "redirect_uri": upstream_state.callback,
            "scope": " ".join(dict.fromkeys((*_GITHUB_SCOPES, *self.settings.scopes))),
            "state": upstream_state.state,
            "code_challenge": challenge_of(upstream_state.verifier),
            "code_challenge_method": "S256",
        }
        return append_query(f"{self.settings.issuer}/login/oauth/authorize", pairs.items())

    async def read(
        self, answer: Mapping[str, str], upstream_state: UpstreamState, now: Instant
    ) -> ClaimedIdentity:
        """Return the user of the code; GitHub never reuses the numeric id."""
        asking = self._token_request(code_of(answer, self.settings), upstream_state)
        token = self._decoded((await fetched(asking, self.settings, "token")).body, _Token)
        authorization = f"Bearer {one_line(token.access_token)}"
        asking = self.line.http.get_authorized(f"{self._api}/user", authorization=authorization)
        body = (await fetched(asking, self.settings, "user")).body
        person = self._decoded(body, _Person)
        if person.id <= 0:
            raise unusable(self.settings, "user")
        email = await self._address(authorization)
        return ClaimedIdentity(
            issuer=self.settings.issuer,
            subject=str(person.id),
            email=email,
            email_verified=bool(email),
            name=plain(person.name),
            username=plain(person.login),
            kept_claims=kept_claims(self.settings, self._decoded(body, dict[str, object])),
        )

    async def probe(self, upstream_state: UpstreamState) -> None:
        """Send a token request with an unknown code."""
        await only_code_refused(self._token_request(NEVER_ISSUED, upstream_state), self.settings)

    def _token_request(self, code: str, upstream_state: UpstreamState) -> Awaitable[Fetched]:
        fields = {
            "client_id": self.settings.client_id,
            "client_secret": self.line.secret.reveal(),
            "code": code,
            "redirect_uri": upstream_state.callback,
            "code_verifier": upstream_state.verifier,
        }
        url = f"{self.settings.issuer}/login/oauth/access_token"
        return self.line.http.post_form(url, fields, accept=JSON)

    async def _address(self, authorization: str) -> str:
        asking = self.line.http.get_authorized(
            f"{self._api}/user/emails", authorization=authorization
        )
        try:
            answered = await asking
        except Unfetchable:
            return ""
        if answered.status != HTTPStatus.OK:
            # Users may keep their addresses private.
            return ""
        addresses = self._decoded(answered.body, list[_Address])[:_MOST_ADDRESSES]
        return next((address(one.email) for one in addresses if one.primary and one.verified), "")

    @property
    def _api(self) -> str:
        issuer = self.settings.issuer
        return _PUBLIC_API if issuer == _PUBLIC else f"{issuer}/api/v3"

    def _decoded(self, body: bytes, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError:
            raise unusable(self.settings, "answer") from None
