"""Users, their records, and the API tokens that administrators create."""

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, NewType

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.account.email_address import ascii_domain
from valetkey.kernel.moment import Instant, is_live

ATTRIBUTE_NAME = r"[A-Za-z][A-Za-z0-9_]{0,39}"
"""The pattern of an attribute's name."""

MOST_ATTRIBUTES = 64
"""Maximum number of declared attributes."""

LARGEST_ATTRIBUTES = 8_192
"""Maximum size of all attributes of one user in bytes of JSON."""


class Attribute(Struct, frozen=True):
    """A declared attribute: the JSON Schema of its values, and whether users may edit their own.

    `label` is what pages call it.
    """

    name: str
    label: str = ""
    schema: Mapping[str, object] = field(default_factory=dict[str, object])
    editable: bool = False

    def encode(self) -> str:
        """Encode for storage."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "Attribute":
        """Decode what `encode` returned."""
        return msgspec.json.decode(text, type=Attribute)


_VALUES = msgspec.json.Decoder(dict[str, object])


class UserAttributes(Struct, frozen=True):
    """The values of a user's attributes by name, also of those that are no longer declared."""

    NOTHING: ClassVar["UserAttributes"]

    values: Mapping[str, object]

    def encode(self) -> str:
        """Encode for storage."""
        return msgspec.json.encode(dict(self.values)).decode() if self.values else "{}"

    @staticmethod
    def decode(text: str) -> "UserAttributes":
        """Decode what `encode` returned."""
        if text == "{}":
            return UserAttributes.NOTHING
        return UserAttributes(_VALUES.decode(text))


UserAttributes.NOTHING = UserAttributes(MappingProxyType({}))


class Address(Struct, frozen=True):
    """A postal address (Core section 5.1.1); "" for absent parts."""

    formatted: str = ""
    street_address: str = ""
    locality: str = ""
    region: str = ""
    postal_code: str = ""
    country: str = ""


class StandardClaims(Struct, frozen=True):
    """All claims beyond username, name and email; "" for absent ones.

    `birthdate` is YYYY-MM-DD, YYYY, or 0000-MM-DD; `zoneinfo` a name such as Europe/Berlin;
    `locale` a language tag; `phone_number` in E.164 format.
    """

    NOTHING: ClassVar["StandardClaims"]

    given_name: str = ""
    family_name: str = ""
    middle_name: str = ""
    nickname: str = ""
    profile: str = ""
    picture: str = ""
    website: str = ""
    gender: str = ""
    birthdate: str = ""
    zoneinfo: str = ""
    locale: str = ""
    phone_number: str = ""
    phone_number_verified: bool = False
    address: Address = Address()

    def encode(self) -> str:
        """Encode for storage."""
        return "{}" if self == StandardClaims.NOTHING else msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "StandardClaims":
        """Decode what `encode` returned, in this or an older version."""
        if text == "{}":
            return StandardClaims.NOTHING
        return msgspec.json.decode(text, type=StandardClaims)


StandardClaims.NOTHING = StandardClaims()

TEXT_CLAIMS = tuple(
    each.name for each in msgspec.structs.fields(StandardClaims) if each.type is str
)
"""The standard claims that consist of one string."""


class Role(StrEnum):
    """A role; users have none by default."""

    OWNER = "owner"  # everything, including roles
    ADMINISTRATOR = "administrator"  # everything except roles
    SUPPORT = "support"  # read, and help users regain access
    AUDITOR = "auditor"  # read


Uid = NewType("Uid", int)
"""Identifies a user: positive, below 2^53, never reused, not sequential."""

LARGEST_UID = (1 << 53) - 1
SMALLEST_UID = 10**15
"""The smallest uid that is drawn: usernames of digits are shorter. An import may choose others."""

_NUMBER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


class User(Struct, frozen=True):
    """One account."""

    uid: Uid
    username: str
    email: str
    email_verified_at: Instant | None
    name: str
    created_at: Instant
    changed_at: Instant
    disabled_at: Instant | None
    claims: StandardClaims = StandardClaims.NOTHING
    role: Role | None = None
    develops: bool = False
    """Whether the user has an app or may register one: read with the account, stored elsewhere."""
    generation: int = 0
    """What was issued in an earlier generation has ended."""
    membership_number: int = 0
    """Random; replaced by every change of the user's own groups and roles."""
    attributes: UserAttributes = UserAttributes.NOTHING
    disabled_by: str = ""
    """The credential of the directory that disabled the account; "" for an administrator."""
    factor_required_at: Instant | None = None
    """Since when a second factor must be added before anything else; None for not at all."""

    @property
    def subject(self) -> str:
        """The public `sub` of this user."""
        return str(self.uid)


def uid_of(text: str) -> Uid | None:
    """Return the uid that the text is; None if it is none, as with a zero in front."""
    if _NUMBER.fullmatch(text) is None or int(text) > LARGEST_UID:
        return None
    return Uid(int(text))


def fold(text: str) -> str:
    """Return one key for all spellings of a username or an email address.

    Computed here only, because databases fold case differently from Python and each other. The
    domain of an email address is compared as A-labels: folding would make ß the same as ss.
    """
    plain = unicodedata.normalize("NFKC", text.strip())
    local, _, domain = plain.rpartition("@")
    if local and (ascii_form := ascii_domain(domain)):
        return f"{fold_letters(local)}@{ascii_form}"
    return fold_letters(plain)


def fold_letters(text: str) -> str:
    """Return the folded text, a domain as it is written: what version 0.2 stored as key."""
    plain = unicodedata.normalize("NFKC", text.strip())
    return unicodedata.normalize("NFKC", plain.casefold())


class ApiToken(Struct, frozen=True):
    """An admin API token, without the token itself.

    `permissions` are those it was issued with; it can never do more than its owner may do at that
    moment. `made_with` is the id of the token that made it, or "".
    """

    id: str
    uid: Uid
    name: str
    permissions: frozenset[str]
    created_at: Instant
    expires_at: Instant
    last_used_at: Instant | None = None
    ended_at: Instant | None = None
    made_with: str = ""

    def is_live(self, now: Instant) -> bool:
        """Return whether it is neither revoked nor expired nor issued in the future."""
        return self.ended_at is None and is_live(self.created_at, self.expires_at, now)
