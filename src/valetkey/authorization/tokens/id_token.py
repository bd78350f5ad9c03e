"""ID tokens, logout tokens and `id_token_hint`, with the `sub` and `sid` of each client."""

from collections.abc import Collection, Mapping
from hashlib import sha256, sha512
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import (
    ClaimsRequest,
    acr_of,
    claims_of_scope,
    user_claims,
)
from valetkey.authorization.tokens.client_keys import ClientSigner, SharedSecrets
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime, days, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, to_base64url

SUBJECT_TYPES = ("public", "pairwise")
"""Values of `subject_type` that a client may register."""


class Subjects(Struct, frozen=True):
    """Computes subject identifiers. Pairwise ones are keyed: not linkable or reversible."""

    key: FingerprintKey

    def subject_of(self, user: User, client: Client) -> str:
        """Return the permanent `sub` of this user for this client; at most 255 characters."""
        return self.of_uid(user.uid, client)

    def of_uid(self, uid: Uid, client: Client) -> str:
        """Return the `sub` of the user with this uid, who may be gone, for this client."""
        if not client.openid.is_pairwise:
            return str(uid)
        # A sector is a host name without NUL, so no two pairs have the same encoding.
        return self.key.fingerprint("pairwise subject", f"{sector_of(client)}\0{uid}")

    def session(self, session_id: str, client: Client) -> str:
        """Return the `sid` of this session for this client.

        As pairwise as the subject: otherwise two clients could compare the ids of a long session to
        link their users.
        """
        if not client.openid.is_pairwise:
            return session_id
        return "se_" + self.key.fingerprint(
            "pairwise session", f"{sector_of(client)}\0{session_id}"
        )


def sector_of(client: Client) -> str:
    """Return the host shared by all clients of a sector (Core section 8.1).

    Defaults to the host of the redirect URIs. A client without any, or with private-use schemes
    only, is a sector of its own.
    """
    if client.openid.sector:
        return client.openid.sector
    hosts = sorted({host for uri in client.redirect_uris if (host := urlsplit(uri).hostname)})
    return hosts[0] if hosts else f"client {client.id}"


_NO_SCOPE = Scope()


class SignInRecord(Struct, frozen=True):
    """A sign-in: the user, time, methods and client; `sid` is the session id, "" if there is none.

    With `with_scope_claims` all claims of the scope go into the ID token. That is always so without
    an access token, because the client cannot call userinfo (Core section 5.4). `stored` are claims
    that are not in the user's record.
    """

    user: User
    client: Client
    auth_time: Instant
    methods: tuple[str, ...] = ()
    sid: str = ""
    nonce: str = ""
    claims: ClaimsRequest = ClaimsRequest.EMPTY
    scope: Scope = _NO_SCOPE
    with_scope_claims: bool = False
    stored: Mapping[str, object] | None = None

    @property
    def claim_names(self) -> Collection[str]:
        """The names of the claims about the user that were requested for the ID token."""
        names: Collection[str] = self.claims.id_token
        if not self.with_scope_claims:
            return names
        of_scope = claims_of_scope(self.scope)
        return of_scope.union(names) if names else of_scope


class IdTokens(Struct, frozen=True):
    """Issues ID tokens."""

    issuer: str
    signer: ClientSigner
    subjects: Subjects
    lifetime: Lifetime

    async def mint(
        self,
        identity: SignInRecord,
        now: Instant,
        *,
        access_token: str = "",
        code: str = "",
        state: str = "",
    ) -> str:
        """Return the ID token, bound to the code and the access token sent with it, if any.

        Raises Refused where the client's algorithm has no key.
        """
        registered = identity.client.openid
        algorithm = registered.id_token_signed_response_alg
        claims = content(identity, now, self.issuer, self.subjects, self.lifetime)
        for name, text in (("at_hash", access_token), ("c_hash", code), ("s_hash", state)):
            if text:
                claims[name] = half_hash(text, algorithm)
        return await self.signer.sign(
            claims,
            identity.client,
            now,
            algorithm=algorithm or None,
            encryption_alg=registered.id_token_encrypted_response_alg,
            encryption_enc=registered.id_token_encrypted_response_enc,
        )


def content(
    identity: SignInRecord, now: Instant, issuer: str, subjects: Subjects, lifetime: Lifetime
) -> dict[str, object]:
    """Return the claims of an ID token without those that bind it to a code or a token."""
    claims: dict[str, object] = {
        "iss": issuer,
        "sub": subjects.subject_of(identity.user, identity.client),
        "aud": identity.client.id,
        "iat": now,
        "exp": later(now, lifetime),
        "auth_time": identity.auth_time,
        "acr": acr_of(identity.methods, _wanted_acrs(identity)),
    }
    if identity.methods:
        claims["amr"] = list(identity.methods)
    if identity.sid:
        claims["sid"] = subjects.session(identity.sid, identity.client)
    if identity.nonce:
        claims["nonce"] = identity.nonce
    claims |= user_claims(identity.user, identity.claim_names)
    if identity.stored:
        claims.update(identity.stored)
    return claims


def half_hash(text: str, algorithm: str) -> str:
    """Return the left half of the hash that belongs to the algorithm (Core section 3.1.3.6).

    SHA-256 for all algorithms except EdDSA, whose curve Ed25519 uses SHA-512.
    """
    hashed = sha512 if algorithm == Algorithm.EDDSA else sha256
    digest = hashed(text.encode()).digest()
    return to_base64url(digest[: len(digest) // 2])


def _wanted_acrs(identity: SignInRecord) -> Collection[str]:
    wish = identity.claims.id_token.get("acr")
    return () if wish is None else wish.accepted


_TYPES = ("jwt", "")
_FOR_EVER = days(366 * 100)
_REFUSED = "id_token_hint is not an ID token that this server issued to this app"


class Hint(Struct, frozen=True):
    """The user named by an ID token, as its client knows them; `session_id` is its `sid` or "".

    It shows that the client once received this ID token. It does not authenticate the sender.
    """

    subject: str
    session_id: str


class IdTokenHints(Struct, frozen=True):
    """Reads our own ID tokens for a client, including expired ones."""

    issuer: str
    keys: SigningKeyRing
    shared: SharedSecrets

    async def read(self, text: str, client: Client, now: Instant) -> Hint:
        """Return the user that the token names.

        Refused with `invalid_request` for anything other than an ID token of this server for
        `client`.
        """
        try:
            claims = await self._claims(text, client, now)
        except Refused as refused:
            refusal = refused.refusal
            raise Refused.because(
                ErrorCode.INVALID_REQUEST,
                _REFUSED,
                f"id_token_hint.{refusal.check.rpartition('.')[2]}",
                refusal.expected,
                refusal.received,
            ) from None
        subject, session_id = claims.get("sub"), claims.get("sid", "")
        if not isinstance(subject, str) or not isinstance(session_id, str) or not subject:
            raise Refused.because(ErrorCode.INVALID_REQUEST, _REFUSED, "id_token_hint.sub")
        return Hint(subject, session_id)

    async def _claims(self, text: str, client: Client, now: Instant) -> jwt.Claims:
        if jwt.parse(text, _TYPES).header.alg == mac.ALGORITHM:
            return mac.verify_shared(
                text,
                self.shared.live_secrets(client, now),
                typ=_TYPES,
                issuer=self.issuer,
                audience=client.id,
                now=now,
                leeway=_FOR_EVER,
            )
        await self.keys.refresh(now, surely=True)
        return jwt.verify(
            text,
            self.keys.published(now),
            typ=_TYPES,
            algorithms=tuple(Algorithm),
            issuer=self.issuer,
            audience=client.id,
            now=now,
            leeway=_FOR_EVER,
        )


TYPE = "logout+jwt"
EVENT = "http://schemas.openid.net/event/backchannel-logout"
"""The member of `events` that makes a JWT a logout token."""

_LIFETIME = minutes(2)


class LogoutTokens(Struct, frozen=True):
    """Issues logout tokens."""

    issuer: str
    signer: ClientSigner
    subjects: Subjects

    async def mint(
        self, user: User, client: Client, session_id: str, now: Instant, *, token_id: str
    ) -> str:
        """Return the logout token, signed and encrypted like this client's ID tokens.

        `token_id` is the same at every delivery attempt. Raises Refused if there is no key for the
        client's algorithm.
        """
        registered = client.openid
        # Never a nonce: an ID token could otherwise be forged from it (section 2.4).
        claims: dict[str, object] = {
            "iss": self.issuer,
            "sub": self.subjects.subject_of(user, client),
            "aud": client.id,
            "iat": now,
            "exp": later(now, _LIFETIME),
            "jti": token_id,
            "sid": self.subjects.session(session_id, client),
            "events": {EVENT: {}},
        }
        return await self.signer.sign(
            claims,
            client,
            now,
            typ=TYPE,
            algorithm=registered.id_token_signed_response_alg or None,
            encryption_alg=registered.id_token_encrypted_response_alg,
            encryption_enc=registered.id_token_encrypted_response_enc,
        )
