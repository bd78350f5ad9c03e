"""Self-contained access tokens: the claims both servers agree on (RFC 9068)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from msgspec import Struct

from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import AHEAD, Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import same_identifiers

TYPE = "at+jwt"
"""The `typ` of its header: no other token that we sign can pass as an access token."""

UNKNOWN_KEY = jwt.UNKNOWN_KEY
"""The check of a refusal that fetching newer keys might resolve."""

DPOP = "jkt"
"""The token is bound to the key of DPoP proofs (RFC 9449 section 6.1)."""

MUTUAL_TLS = "x5t#S256"
"""The token is bound to a client certificate (RFC 8705 section 3.1)."""

MOST_ACTORS = 5
"""Maximum number of actors in the `act` claim."""

_OWN = frozenset(
    (
        *("iss", "sub", "aud", "client_id", "scope", "jti", "iat", "exp"),
        *("grant_id", "auth_time", "cnf", "act"),
    )
)
_NO_CLAIMS: Mapping[str, object] = MappingProxyType({})
_ALGORITHMS = (Algorithm.ES256,)


class Binding(Struct, frozen=True):
    """A key whose possession the token's bearer must prove (RFC 7800 section 3.1).

    `method` is the member of `cnf`; `thumbprint` is "" for a method of unknown form.
    """

    method: str
    thumbprint: str


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The claims of an access token. `grant_id` is None for a client acting on its own behalf.

    `audience` is the resource server's URL; `auth_time` is when the user signed in, if one did. A
    token without `bindings` is a bearer token. `actors` are the subjects of its `act` claim, the
    latest first (RFC 8693 section 4.1). `claims` are all others, and never replace these.
    """

    issuer: str
    subject: str
    client_id: str
    audience: str
    scope: Scope
    token_id: str
    issued_at: Instant
    expires_at: Instant
    grant_id: str | None
    auth_time: Instant | None
    bindings: tuple[Binding, ...] = ()
    actors: tuple[str, ...] = ()
    claims: Mapping[str, object] = field(default_factory=lambda: _NO_CLAIMS, hash=False)

    def content(self) -> jwt.Claims:
        """Return all of the token's claims."""
        claims: jwt.Claims = {
            **self.claims,
            "iss": self.issuer,
            "sub": self.subject,
            "aud": self.audience,
            "client_id": self.client_id,
            "scope": str(self.scope),
            "jti": self.token_id,
            "iat": self.issued_at,
            "exp": self.expires_at,
        }
        if self.grant_id is not None:
            claims["grant_id"] = self.grant_id
        if self.auth_time is not None:
            claims["auth_time"] = self.auth_time
        if self.bindings:
            claims["cnf"] = {binding.method: binding.thumbprint for binding in self.bindings}
        if self.actors:
            claims["act"] = act_of(self.actors)
        return claims

    def sign(self, key: SigningKey) -> str:
        """Return the token as a signed string."""
        return jwt.sign(self.content(), key, typ=TYPE)


def verify(
    text: str,
    keys: KeySet,
    *,
    issuer: str,
    audience: str | None,
    now: Instant,
    algorithms: Collection[Algorithm] = _ALGORITHMS,
    ahead: int = AHEAD,
) -> AccessToken:
    """Return the access token in `text` if `issuer` signed it for `audience` and it is live.

    `audience` is compared as `url.canonical` does. It is None for the issuer itself, which signed
    for many and compares afterwards.

    Live means `expires_at > now`, without leeway, and issued at most `ahead` seconds in the future.
    Refused with `invalid_token`; the check is `UNKNOWN_KEY` when its key is not among `keys`.
    """
    parts = jwt.verify_signature(text, keys, typ=(TYPE,), algorithms=algorithms)
    if audience is None:
        audience = _text(read_object(parts.payload) or {}, "aud")
    claims = jwt.read_claims(
        parts.payload,
        issuer=issuer,
        audience=same_identifiers(audience),
        now=now,
        leeway=0,
        ahead=ahead,
    )
    return AccessToken(
        issuer=issuer,
        subject=_text(claims, "sub"),
        client_id=_text(claims, "client_id"),
        audience=audience,
        scope=_scope(claims),
        token_id=_text(claims, "jti"),
        issued_at=_instant(claims, "iat"),
        expires_at=_instant(claims, "exp"),
        grant_id=_text(claims, "grant_id") if "grant_id" in claims else None,
        auth_time=_instant(claims, "auth_time") if "auth_time" in claims else None,
        bindings=_bindings(claims) if "cnf" in claims else (),
        actors=_actors(claims) if "act" in claims else (),
        claims=_others(claims),
    )


def act_of(actors: tuple[str, ...]) -> dict[str, object]:
    """Return the `act` claim of at least one actor, the latest outermost (RFC 8693 section 4.1)."""
    act: dict[str, object] = {}
    for subject in reversed(actors):
        act = {"sub": subject, "act": act} if act else {"sub": subject}
    return act


def read_bindings(cnf: object) -> tuple[Binding, ...] | None:
    """Return the bindings in a `cnf` claim, of any method; None if it names none."""
    if not isinstance(cnf, dict) or not cnf:
        return None
    members = cast("dict[str, object]", cnf)
    return tuple(
        Binding(method, value if isinstance(value, str) else "")
        for method, value in members.items()
    )


def _text(claims: jwt.Claims, name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise _refused(name, "a string that is not empty")
    return value


def _instant(claims: jwt.Claims, name: str) -> Instant:
    value = claims.get(name)
    # type, not isinstance: True is an int.
    if type(value) is not int or value < 0:
        raise _refused(name, "whole seconds since 1970")
    return Instant(value)


def _others(claims: jwt.Claims) -> Mapping[str, object]:
    if claims.keys() <= _OWN:
        return _NO_CLAIMS
    return {name: value for name, value in claims.items() if name not in _OWN}


def _actors(claims: jwt.Claims) -> tuple[str, ...]:
    actors: list[str] = []
    act = claims["act"]
    while act is not None:
        members = cast("dict[str, object]", act) if isinstance(act, dict) else {}
        subject = members.get("sub")
        if not isinstance(subject, str) or not subject or len(actors) == MOST_ACTORS:
            raise _refused("act", f"at most {MOST_ACTORS} actors, each with a sub")
        actors.append(subject)
        act = members.get("act")
    return tuple(actors)


def _bindings(claims: jwt.Claims) -> tuple[Binding, ...]:
    bindings = read_bindings(claims["cnf"])
    if bindings is None:
        raise _refused("cnf", "an object that names a key")
    return bindings


def _scope(claims: jwt.Claims) -> Scope:
    value = claims.get("scope", "")
    if not isinstance(value, str):
        raise _refused("scope", "a string")
    try:
        return Scope.parse(value)
    except Refused:
        raise _refused("scope", "names separated by single spaces") from None


def _refused(claim: str, expected: str) -> Refused:
    description = "the token is not valid"
    return Refused.because(ErrorCode.INVALID_TOKEN, description, f"access_token.{claim}", expected)
