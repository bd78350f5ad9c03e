"""Users: their records, email addresses, credentials, sessions, groups and API tokens.

The domain is stored as A-labels (IDNA 2008, RFC 5890): what browsers send, what mail servers take,
and what no two spellings share. The part before the @ is stored as it is.
"""

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NewType

import msgspec
from msgspec import Struct, field

from valetkey.kernel.moment import Instant, is_live, seconds
from valetkey.kernel.runtime import import_lazily

if TYPE_CHECKING:
    import idna
else:
    idna = import_lazily("idna")

LONGEST = 200
"""Maximum length of an email address in characters."""

LABEL = re.compile(r"[A-Za-z0-9](?:[\w-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""A label of a domain in ASCII."""

_LOCAL = re.compile(r"[^\s()<>\[\]:;@\\,\"\x00-\x1f\x7f]{1,64}")
_LONGEST_DOMAIN = 253
_PREFIX = "xn--"


def ascii_email(text: str) -> str:
    """Return the address without spaces around, its domain in ASCII where that is possible."""
    text = text.strip()
    local, at, domain = text.rpartition("@")
    if not local or not at or domain.isascii():
        return text
    return f"{local}@{ascii_domain(domain) or domain}"


def shown_email(text: str) -> str:
    """Return the address as its owner writes it, with the letters of its domain."""
    local, at, domain = text.rpartition("@")
    return f"{local}@{_unicode_domain(domain) or domain}" if at else text


def is_mailable(text: str) -> bool:
    """Return whether the address is well-formed, so that email to it could arrive."""
    text = ascii_email(text)
    local, at, domain = text.rpartition("@")
    if not at or len(text) > LONGEST or not text.isprintable() or ".." in local:
        return False
    if not _LOCAL.fullmatch(local) or local.startswith(".") or local.endswith("."):
        return False
    labels = domain.split(".")
    return len(labels) > 1 and all(map(LABEL.fullmatch, labels)) and not labels[-1].isdigit()


def ascii_domain(domain: str) -> str:
    """Return an international domain in ASCII and lower case; "" if it is none."""
    is_international = not domain.isascii() or _PREFIX in domain.lower()
    if not is_international or len(domain) > _LONGEST_DOMAIN:
        return ""
    try:
        return idna.encode(domain, uts46=True).decode("ascii").lower()
    except UnicodeError:
        return ""


def _unicode_domain(domain: str) -> str:
    # Of the form in ASCII: letters that are mapped to others are not decoded.
    in_ascii = ascii_domain(domain) if _PREFIX in domain.lower() else ""
    return idna.decode(in_ascii) if in_ascii else ""


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
    claim.name for claim in msgspec.structs.fields(StandardClaims) if claim.type is str
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


class FactorKind(StrEnum):
    """The kinds of credentials, as stored."""

    PASSWORD = "password"
    PASSKEY = "passkey"
    AUTHENTICATOR = "totp"
    RECOVERY_CODE = "recovery_code"


class Passkey(Struct, frozen=True):
    """The public half of a passkey.

    `handle` is the credential id in base64url; `public` is what the WebAuthn library expects: that
    id and the key in COSE. `synced` passkeys may be copied to other devices of the user. `counter`
    is the last signature counter, 0 if the device has none.
    """

    id: str
    uid: Uid
    name: str
    handle: str
    public: bytes
    synced: bool
    counter: int
    created_at: Instant
    last_used_at: Instant | None = None


class Authenticator(Struct, frozen=True):
    """An authenticator app; its secret is `sealed` under the id."""

    id: str
    uid: Uid
    sealed: str
    created_at: Instant
    last_used_at: Instant | None = None


class RecoveryCodes(Struct, frozen=True):
    """The number of unused recovery codes, and when they were issued."""

    left: int
    made_at: Instant | None


class RememberedDevice(Struct, frozen=True):
    """A browser in which the second factor is skipped until `expires_at`.

    Its cookie changes with every use. `fingerprint` is that of the current one, `previous` that of
    the one replaced at `changed_at`.
    """

    id: str
    uid: Uid
    fingerprint: str
    previous: str
    changed_at: Instant
    user_agent: str
    created_at: Instant
    expires_at: Instant


NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
"""The pattern of a group's name, which apps receive."""


def group_names(text: str) -> list[str]:
    """Return the names in a list of groups, each once, in order.

    They are separated by spaces, commas, semicolons or line breaks, which no name contains.
    """
    return sorted(set(re.split(r"[\s,;]+", text)) - {""})


MOST_OF_USER = 200
"""Maximum number of groups of which a user is a direct member."""


class Group(Struct, frozen=True):
    """A group. Its members are also members of the group `parent`, "" for none."""

    id: str
    name: str
    description: str
    parent: str
    created_at: Instant


class GroupMember(Struct, frozen=True):
    """A direct member of a group."""

    uid: int
    username: str
    name: str
    since: Instant


class Session(Struct, frozen=True):
    """A signed-in browser; `id` is public (`sid`), the cookie is stored as a fingerprint.

    `methods` is how the user signed in at `auth_time`. `proved_by` is the last authentication, at
    `proved_at`: the sign-in, or a later one before a sensitive action. `device_id` names the
    remembered device that replaced the second factor, "" for none. The IP addresses of the latest
    sign-in and of the latest use are "" if they are unknown, not recorded or erased.
    """

    id: str
    uid: Uid
    auth_time: Instant
    methods: tuple[str, ...]
    user_agent: str
    created_at: Instant
    last_seen_at: Instant
    expires_at: Instant
    ended_at: Instant | None
    proved_at: Instant = Instant(0)
    proved_by: tuple[str, ...] = ()
    device_id: str = ""
    signed_in_from: str = ""
    last_seen_from: str = ""

    def is_live(self, now: Instant) -> bool:
        """Return whether the session has neither ended nor expired nor begun in the future.

        Signing in again extends it: its life is counted from the latest sign-in.
        """
        return self.ended_at is None and is_live(self.auth_time, self.expires_at, now)


LEASE = seconds(15)
"""How long one process may hold a delivery: three times the longest attempt."""


class DeliveryKind(StrEnum):
    """The kinds of notifications to apps."""

    LOGOUT = "logout"


class Delivery(Struct, frozen=True):
    """A notification to one app that one session has ended.

    `id` is the same at every attempt; `attempts` counts those begun. There are no attempts after
    `expires_at`.
    """

    id: str
    kind: DeliveryKind
    client_id: str
    session_id: str
    uid: Uid
    attempts: int
    due_at: Instant
    created_at: Instant
    expires_at: Instant
