"""Identity assertion JWT authorization grants, ID-JAG: a user of one server, for an API of another.

draft-ietf-oauth-identity-assertion-authz-grant-04. An assertion is signed by the server at which
the user signs in and names one client at one other authorization server, which takes it in place of
the user's consent (RFC 7523 section 2.1).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct, field

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, hours, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, from_base64url
from valetkey.kernel.strict_json import read_foreign_object

TYPE = "oauth-id-jag+jwt"
"""The `typ` of its header: no other token that we or others sign can pass as one."""


LIFETIME = minutes(5)
"""Lifetime of the assertions that this server issues."""

_LONGEST_LIFE = hours(1)
_CLOCKS = 60
"""Allowed clock difference between another server and this one, in seconds."""

_LONGEST_JTI = 256
_LONGEST_SUBJECT = 255
_MOST_RESOURCES = 20
_NOT_UNDERSTOOD = ("tenant", "cnf", "act")
"""Claims that narrow whom or what an assertion is for: one that has them is refused."""

_ID_TOKEN_TYPES = ("jwt", "")


class TrustedIssuer(Protocol):
    """A server whose assertions are trusted."""

    async def verify_assertion(
        self, token: str, *, typ: str, audience: str, now: Instant
    ) -> jwt.Claims:
        """Return the claims of a live JWT of this type that the server signed. Raises Refused."""
        ...

    def linked_account(self, tx: Transaction, subject: str) -> Uid | None:
        """Return the account here that is linked with this user of the server."""
        ...


class IssuedAssertion(Struct, frozen=True):
    """An assertion that was granted, before signing."""

    client: Client
    claims: Mapping[str, object]
    scope: Scope
    lifetime: int


class IdentityAssertion(Struct, frozen=True):
    """A verified assertion of another server about the user `subject` there."""

    issuer: str
    subject: str
    jti: str
    issued_at: Instant
    expires_at: Instant
    auth_time: Instant
    scope: str
    resources: tuple[str, ...]

    def mark(self, key: FingerprintKey) -> Voucher:
        """Return the record that makes it single-use, kept as long as it could be accepted."""
        return Voucher(
            VoucherKind.ASSERTION,
            key.fingerprint(f"identity assertion:{self.issuer}", self.jti),
            client_id="",
            grant_id="",
            payload="",
            expires_at=Instant(self.expires_at + _CLOCKS + 1),
        )


class SubjectIdToken(Struct, frozen=True):
    """The user of a live ID token, as its client knows them, and how they signed in."""

    subject: str
    auth_time: Instant
    sign_in: Mapping[str, object]


class IdentityAssertions(Struct, frozen=True):
    """Reads ID tokens for assertions to issue, and the assertions of other servers.

    `issues` is whether this server issues assertions; `trusted` are the servers whose assertions it
    accepts, by issuer. Without either the feature is off.
    """

    issuer: str
    keys: SigningKeyRing
    issues: bool = False
    trusted: Mapping[str, TrustedIssuer] = field(default_factory=lambda: MappingProxyType({}))

    async def read_id_token(self, text: str, client: Client, now: Instant) -> SubjectIdToken:
        """Return the sign-in of an ID token of this server for `client` that has not expired.

        Refused with `invalid_grant` for anything else. An ID token signed with the client's secret
        proves nothing here: the client itself could have made it.
        """
        try:
            await self.keys.refresh(now, surely=True)
            claims = jwt.verify(
                text,
                self.keys.published(now),
                typ=_ID_TOKEN_TYPES,
                algorithms=tuple(Algorithm),
                issuer=self.issuer,
                audience=client.id,
                now=now,
                leeway=0,
            )
        except Refused as refused:
            refusal = refused.refusal
            raise Refused(not_accepted(refusal.check, refusal.expected, refusal.received)) from None
        auth_time = claims.get("auth_time")
        # Only ID tokens have it; other JWTs of this server for a client are of the same `typ`.
        if type(auth_time) is not int or claims.get("aud") != client.id:
            raise Refused(not_accepted("id_token", "an ID token", "another JWT"))
        sign_in: dict[str, object] = {n: claims[n] for n in ("acr", "amr") if n in claims}
        return SubjectIdToken(str(claims.get("sub")), Instant(auth_time), sign_in)

    def linked_account(self, tx: Transaction, assertion: IdentityAssertion) -> Uid | None:
        """Return the account here that is linked with the user whom an assertion names."""
        trusted = self.trusted.get(assertion.issuer)
        return None if trusted is None else trusted.linked_account(tx, assertion.subject)

    async def read(self, text: str, client: Client, now: Instant) -> IdentityAssertion:
        """Return the assertion of a trusted server for `client` here.

        Refused with `invalid_grant`. `jti` is not redeemed yet.
        """
        issuer = _issuer_of(text)
        trusted = self.trusted.get(issuer)
        if trusted is None:
            raise Refused(not_accepted("issuer", "a trusted issuer", issuer[:200]))
        try:
            claims = await trusted.verify_assertion(text, typ=TYPE, audience=self.issuer, now=now)
        except Refused as refused:
            refusal = refused.refusal
            raise Refused(not_accepted(refusal.check, refusal.expected, refusal.received)) from None
        return _read(claims, issuer, self.issuer, client, now)


def is_identity_assertion(text: str) -> bool:
    """Return whether a JWT says that it is an ID-JAG. Unverified."""
    try:
        return jwt.header_of(text, foreign=True).typ == TYPE
    except Refused:
        return False


def not_accepted(check: str, expected: str, received: str = "") -> Refusal:
    """Return the refusal of an identity assertion, or of a token for which one is requested."""
    return Refusal(
        ErrorCode.INVALID_GRANT,
        "the assertion or the token was not issued for this, has expired, or is not trusted",
        f"identity_assertion.{check}",
        expected,
        received,
    )


def _issuer_of(text: str) -> str:
    parts = text.split(".", 3) if len(text) <= jwt.LONGEST else []
    data = from_base64url(parts[1]) if len(parts) == 3 else None  # noqa: PLR2004 - a signed JWT
    claims = read_foreign_object(data) if data is not None else None
    issuer = None if claims is None else claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def _read(
    claims: jwt.Claims, issuer: str, audience: str, client: Client, now: Instant
) -> IdentityAssertion:
    if claims.get("aud") not in (audience, [audience]):
        # Another recipient could present it here.
        raise Refused(not_accepted("audience", audience, "others as well"))
    if claims.get("client_id") != client.id:
        raise Refused(not_accepted("client", client.id, "another client"))
    for name in _NOT_UNDERSTOOD:
        if name in claims:
            raise Refused(not_accepted(name, "an assertion without this claim", name))
    issued_at, expires_at = claims.get("iat"), claims.get("exp")
    if not isinstance(issued_at, int) or not isinstance(expires_at, int):
        raise Refused(not_accepted("times", "iat and exp"))
    if expires_at > now + _LONGEST_LIFE + _CLOCKS:
        raise Refused(not_accepted("long", f"at most {_LONGEST_LIFE} s", "a longer life"))
    auth_time = claims.get("auth_time", issued_at)
    if type(auth_time) is not int or not 0 <= auth_time <= now + _CLOCKS:
        raise Refused(not_accepted("auth_time", "whole seconds that have passed"))
    resource = claims.get("resource", [])
    listed: list[object] = [resource] if isinstance(resource, str) else _list(resource)
    resources = tuple(
        identifier for identifier in listed if isinstance(identifier, str) and identifier
    )
    if len(resources) != len(listed) or len(listed) > _MOST_RESOURCES:
        raise Refused(not_accepted("resource", "the identifier of an API, or several"))
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise Refused(not_accepted("scope", "names separated by single spaces"))
    return IdentityAssertion(
        issuer=issuer,
        subject=_text(claims, "sub", _LONGEST_SUBJECT),
        jti=_text(claims, "jti", _LONGEST_JTI),
        issued_at=Instant(issued_at),
        expires_at=Instant(expires_at),
        auth_time=Instant(min(auth_time, now)),
        scope=scope,
        resources=resources,
    )


def _list(value: object) -> list[object]:
    return [*value] if isinstance(value, list) else [None]


def _text(claims: jwt.Claims, name: str, longest: int) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise Refused(not_accepted(name, f"1 to {longest} printable characters"))
    return value
