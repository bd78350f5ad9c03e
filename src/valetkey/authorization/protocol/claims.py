"""Claims: those of each scope, and the `claims` parameter (OpenID Connect Core section 5)."""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import ClassVar, NoReturn, cast

import msgspec
from msgspec import Struct

from valetkey.authorization.model.user import TEXT_CLAIMS, Address, User
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.strict_json import read_object

OPENID = "openid"
"""The scope that makes a request an OpenID Connect request (Core section 3.1.2.1)."""

OFFLINE_ACCESS = "offline_access"
"""The scope for access after the user has signed out (Core section 11)."""

GROUPS = "groups"
CLAIM_NAMES = "_claim_names"
CLAIM_SOURCES = "_claim_sources"
"""The scope, and the claim with the names of the user's groups."""

ROLES = "roles"
"""The claim with the names of the user's roles at an API."""

IDENTITY_SCOPES: Mapping[str, str] = MappingProxyType(
    {
        OPENID: "confirm your identity",
        "profile": "read your name and your public profile",
        "email": "read your email address",
        "address": "read your postal address",
        "phone": "read your phone number",
        GROUPS: "know which groups you are in",
        OFFLINE_ACCESS: "keep this access while you are signed out",
    }
)
"""Scopes about the user at this server itself; never scopes of an API.

Each description starts with a verb: "Notes Printer wants to …".
"""

CLAIMS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "profile": (
            "name",
            "family_name",
            "given_name",
            "middle_name",
            "nickname",
            "preferred_username",
            "profile",
            "picture",
            "website",
            "gender",
            "birthdate",
            "zoneinfo",
            "locale",
            "updated_at",
        ),
        "email": ("email", "email_verified"),
        "address": ("address",),
        "phone": ("phone_number", "phone_number_verified"),
        GROUPS: (GROUPS,),
    }
)
"""The claims that each scope requests (Core section 5.4)."""

PERSONAL_CLAIMS = frozenset(name for names in CLAIMS_OF.values() for name in names)
"""All claims about a person."""

_NO_NAMES: frozenset[str] = frozenset()

SIGN_IN_CLAIMS = ("sub", "auth_time", "acr", "amr")
"""Claims about a sign-in that can be requested."""

RESERVED_CLAIMS = (
    PERSONAL_CLAIMS - {GROUPS}
    | frozenset(SIGN_IN_CLAIMS)
    | frozenset(
        (
            *("iss", "aud", "exp", "nbf", "iat", "jti", "nonce", "azp", "sid", "typ", "events"),
            *("at_hash", "c_hash", "s_hash", "scope", "client_id", "cnf", "act", "may_act"),
            *("grant_id", "uid", "active", "token_type", "token_introspection", "username"),
            *("sub_jwk", "_claim_names", "_claim_sources", "authorization_details"),
        )
    )
)
"""Claims of protocols and of the user's record, which an operator cannot declare."""

LONGEST = 4_096
"""Maximum length of a `claims` parameter."""


class Amr(StrEnum):
    """Authentication methods (RFC 8176 section 2)."""

    PASSWORD = "pwd"
    ONE_TIME_CODE = "otp"  # authenticator app, or a recovery code
    HARDWARE_KEY = "hwk"  # passkey bound to its device
    SOFTWARE_KEY = "swk"  # synchronised passkey
    USER_VERIFIED = "user"  # user verification by PIN, finger or face
    SEVERAL = "mfa"  # two factors or more


class Acr(StrEnum):
    """Authentication context classes, weakest first."""

    PASSWORD = "urn:valetkey:acr:password"
    TWO_FACTORS = "urn:valetkey:acr:two_factors"
    PASSKEY = "urn:valetkey:acr:passkey"


PASSWORD = Amr.PASSWORD.value
"""The method of a password sign-in."""

NO_ACR = "0"
"""The class of a sign-in that meets no other; not to be relied on (Core section 2)."""


class ClaimRequest(Struct, frozen=True):
    """The request of one claim. Only string values are kept, because only they are compared.

    `value` is "" for any.
    """

    essential: bool = False
    value: str = ""
    values: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The accepted values, one of which is requested; empty for any."""
        return (self.value, *self.values) if self.value else self.values


class ClaimsRequest(Struct, frozen=True):
    """Individually requested claims for userinfo and for the ID token (Core section 5.5).

    Contains only claims that this server knows; others are ignored, as the section says.
    """

    EMPTY: ClassVar["ClaimsRequest"]

    userinfo: Mapping[str, ClaimRequest]
    id_token: Mapping[str, ClaimRequest]

    @staticmethod
    def parse(text: str) -> "ClaimsRequest":
        """Parse a `claims` parameter; "" requests nothing.

        Refused with `invalid_request` above 4,096 characters and for anything not in the form of
        Core section 5.5.
        """
        if not text:
            return ClaimsRequest.EMPTY
        if len(text) > LONGEST:
            _refuse("long", f"claims has more than {LONGEST} characters")
        members = read_object(text.encode("utf-8", "surrogatepass"))
        if members is None:
            _refuse("json", "claims must be a JSON object")
        return ClaimsRequest(
            _claim_requests(members, "userinfo"), _claim_requests(members, "id_token")
        )

    @property
    def names(self) -> frozenset[str]:
        """The requested personal claims, which the user must allow."""
        if not self.userinfo and not self.id_token:
            return _NO_NAMES
        return PERSONAL_CLAIMS.intersection((*self.userinfo, *self.id_token))

    @property
    def subject(self) -> str:
        """The only `sub` the response may be about; "" for any (Core section 5.5)."""
        return self.id_token.get("sub", _ANY).value or self.userinfo.get("sub", _ANY).value

    def only(self, names: Collection[str]) -> "ClaimsRequest":
        """Return a copy without the personal claims that are not in `names`."""
        if not self.userinfo and not self.id_token:
            return self

        def filtered(wishes: Mapping[str, ClaimRequest]) -> Mapping[str, ClaimRequest]:
            return {
                name: wish
                for name, wish in wishes.items()
                if name not in PERSONAL_CLAIMS or name in names
            }

        return ClaimsRequest(filtered(self.userinfo), filtered(self.id_token))

    def encode(self) -> str:
        """Encode for `parse`; "" if nothing is requested."""
        members = {
            name: {claim: _spell(wish) for claim, wish in wishes.items()}
            for name, wishes in (("userinfo", self.userinfo), ("id_token", self.id_token))
            if wishes
        }
        return msgspec.json.encode(members).decode() if members else ""


ClaimsRequest.EMPTY = ClaimsRequest(MappingProxyType({}), MappingProxyType({}))
_ANY = ClaimRequest()


def claims_of_scope(scope: Collection[str]) -> frozenset[str]:
    """Return the names of the claims that this scope requests."""
    return _claims_of(tuple([scope_name for scope_name in CLAIMS_OF if scope_name in scope]))


@cache
def _claims_of(scopes: tuple[str, ...]) -> frozenset[str]:
    # At most as many entries as there are subsets of six scopes.
    return frozenset(name for scope_name in scopes for name in CLAIMS_OF[scope_name])


def user_claims(user: User, names: Collection[str]) -> dict[str, object]:
    """Return the named claims that the user's record has."""
    claims: dict[str, object] = {}
    for name, say in _VALUES.items():
        if name in names and (value := say(user)) is not None:
            claims[name] = value
    return claims


def acrs_of(methods: Collection[str]) -> tuple[Acr, ...]:
    """Return every authentication context class that a sign-in by these methods meets, best first.

    A passkey with user verification counts as two factors.
    """
    classes: list[Acr] = []
    by_key = not {Amr.HARDWARE_KEY, Amr.SOFTWARE_KEY}.isdisjoint(methods)
    if by_key and Amr.USER_VERIFIED in methods:
        classes.append(Acr.PASSKEY)
    if Amr.SEVERAL in methods:
        classes.append(Acr.TWO_FACTORS)
    if Amr.PASSWORD in methods:
        classes.append(Acr.PASSWORD)
    return tuple(classes)


def acr_of(methods: Collection[str], requested: Collection[str] = ()) -> str:
    """Return the class to report: the best of `wanted` that is met, otherwise the best met."""
    classes = acrs_of(methods)
    best = classes[0].value if classes else NO_ACR
    return next((acr.value for acr in classes if acr in requested), best)


def _text(name: str) -> Callable[[User], object]:
    def value_of(user: User) -> object:
        return getattr(user.claims, name) or None

    return value_of


def _address(user: User) -> object:
    address = user.claims.address
    names = Address.__struct_fields__
    return {name: value for name in names if (value := getattr(address, name))} or None


def _phone_verified(user: User) -> object:
    return user.claims.phone_number_verified if user.claims.phone_number else None


_OTHER_CLAIMS: Mapping[str, Callable[[User], object]] = {
    "name": lambda user: user.name or None,
    "preferred_username": lambda user: user.username,
    "updated_at": lambda user: user.changed_at,
    "email": lambda user: user.email,
    # An unverified address must not be taken for an identity.
    "email_verified": lambda user: user.email_verified_at is not None,
    "address": _address,
    "phone_number_verified": _phone_verified,
}
_VALUES: Mapping[str, Callable[[User], object]] = {
    name: _text(name) if name in TEXT_CLAIMS else _OTHER_CLAIMS[name]
    for scope, names in CLAIMS_OF.items()
    for name in names
    if scope != GROUPS
}


def _claim_requests(members: Mapping[str, object], member: str) -> Mapping[str, ClaimRequest]:
    wishes = members.get(member, {})
    if not isinstance(wishes, dict):
        _refuse(member, "the members userinfo and id_token of claims must be objects")
    named = cast("dict[str, object]", wishes)
    return MappingProxyType(
        {
            name: _claim_request(wish)
            for name, wish in named.items()
            if name in PERSONAL_CLAIMS or name in SIGN_IN_CLAIMS
        }
    )


def _claim_request(request: object) -> ClaimRequest:
    if request is None:
        return ClaimRequest()
    if not isinstance(request, dict):
        _refuse("claim", "claims must ask for each claim with null or with an object")
    members = cast("dict[str, object]", request)
    essential, value, values = (
        members.get("essential", False),
        members.get("value", ""),
        members.get("values", []),
    )
    if not isinstance(essential, bool) or not isinstance(values, list):
        _refuse("claim", "in claims, essential is true or false and values an array")
    listed = cast("list[object]", values)
    return ClaimRequest(
        essential,
        value if isinstance(value, str) else "",
        tuple(text for text in listed if isinstance(text, str)),
    )


def _spell(wish: ClaimRequest) -> dict[str, object] | None:
    if wish == _ANY:
        return None
    members: dict[str, object] = {"essential": True} if wish.essential else {}
    if wish.value:
        members["value"] = wish.value
    if wish.values:
        members["values"] = list(wish.values)
    return members


def _refuse(check: str, description: str) -> NoReturn:
    raise Refused.because(ErrorCode.INVALID_REQUEST, description, f"claims.{check}")
