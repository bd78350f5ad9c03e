"""Accounts: register, change, disable and enable them; rules for their fields."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from valetkey.authorization.actions.account.factors import reset_factors
from valetkey.authorization.actions.admin.roles import end_issued, leave_an_owner
from valetkey.authorization.actions.bulk_revocation import end_all_of_user
from valetkey.authorization.authentication.factors import forget_devices
from valetkey.authorization.authentication.session import end_sessions
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.model.event.accounts import (
    PasswordChanged,
    UserChanged,
    UserDisabled,
    UserEnabled,
    UserRegistered,
)
from valetkey.authorization.model.event.grants import ConsentWithdrawn, GrantRevoked
from valetkey.authorization.model.user import (
    LARGEST_UID,
    SMALLEST_UID,
    TEXT_CLAIMS,
    Address,
    StandardClaims,
    Uid,
    User,
    UserAttributes,
    ascii_email,
    fold,
)
from valetkey.authorization.protocol.register.faults import (
    NO_CONTROLS,
    MetadataError,
    fault,
    input_fault,
    matching,
)
from valetkey.authorization.protocol.register.openid_rules import is_link
from valetkey.authorization.protocol.register.self_registration import (
    RESERVED,
    as_letters,
    name_fault,
    shape_of,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id

_CHOOSABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,38}[A-Za-z0-9]", re.ASCII)
_ID = re.compile(r"(?:[a-z]{2,8}|vk_[a-z]{2,4})_[a-z0-9_-]{16,}", re.ASCII)
"""The pattern of the ids and secrets of this server, in lowercase."""

_NUMBER = re.compile(r"[0-9][0-9._-]*", re.ASCII)

_OPERATORS = (
    *("abuse", "admin", "admins", "anonymous", "api", "apply", "cli", "everybody", "everyone"),
    *("help", "helpdesk", "hostmaster", "info", "mailer-daemon", "me", "moderator", "nobody"),
    *("noreply", "null", "oauth", "operator", "operators", "owner", "postmaster", "root", "self"),
    *("server", "service", "staff", "superuser", "sysadmin", "sysop", "undefined", "unknown"),
    *("user", "users", "webmaster", "www"),
)
"""Words that people or programs could mistake for something else than a user."""

_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
    r"|[\U000e0100-\U000e01ef]"
)
"""Invisible characters: fillers, variation selectors, the empty Braille cell."""

_MARKUP = frozenset('<>"&`\\')
"""Characters of markup and quoting, which other systems that get the name may interpret."""

_DIGITS = str.maketrans("0135!|$", "olesils")
"""Digits and signs that stand for letters: `adm1n`, `r00t`."""


def is_choosable(username: str) -> bool:
    """Return whether it is 3 to 40 letters and digits and does not resemble an id."""
    return _CHOOSABLE.fullmatch(username) is not None and not _reads_like_an_id(fold(username))


def is_reserved(username: str, more: Iterable[str] = ()) -> bool:
    """Return whether the name could be mistaken for this server, its operator, or one of `more`."""
    bare, seen = _readings((*RESERVED, *_OPERATORS, *more))
    return _bare(username) in bare or _seen(username) in seen


@lru_cache(16)
def _readings(words: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    # An import checks thousands of names against the same words.
    return frozenset(map(_bare, words)), frozenset(map(_seen, words))


def username_fault(username: str, reserved: Iterable[str] = ()) -> str:
    """Return what a username has to be instead of this one; "" if this one can be assigned."""
    code = username_code(username, reserved)
    return input_fault("username", code).detail if code else ""


def username_code(username: str, reserved: Iterable[str] = ()) -> str:
    """Return the code of why this username cannot be assigned; "" if it can.

    Existing accounts keep their name; only new names are checked.
    """
    folded = fold(username)
    if _reads_like_an_id(folded):
        return "username.id"
    if _UNSEEN.search(username):
        return "username.invisible"
    if _MARKUP & set(folded):
        return "username.markup"
    if is_reserved(username, reserved):
        return "username.reserved"
    return name_fault(username, ()).replace("name.", "username.")


def _reads_like_an_id(folded: str) -> bool:
    if _NUMBER.fullmatch(folded):
        # Numbers of students and staff. The store refuses one that is the uid of another user.
        return folded.isdigit() and len(folded) >= len(str(SMALLEST_UID))
    has_letter = any(letter.isalpha() for letter in folded)
    return not has_letter or bool(set(folded) & set(":@")) or _ID.fullmatch(folded) is not None


def _bare(text: str) -> str:
    # l and i are one letter here: they look alike, and 1 stands for either.
    plain = as_letters(fold(text), _DIGITS).replace("i", "l")
    return "".join(letter for letter in plain if letter.isalnum())


def _seen(text: str) -> str:
    return as_letters(shape_of(text), _DIGITS).replace("i", "l")


LONGEST = 200
"""Maximum length of a name, and of each part of an address, in characters."""

LONGEST_ADDRESS = 1_000
"""Maximum length of a whole address in characters, line breaks included."""

_PHONE_NUMBER = re.compile(r"\+[1-9][0-9]{4,14}", re.ASCII)
_BIRTHDATE = re.compile(r"([0-9]{4})(?:-([0-9]{2})-([0-9]{2}))?", re.ASCII)
_LOCALE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,4}", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(?:/[A-Za-z0-9_+-]{1,40}){0,2}", re.ASCII)
_LEAP = 2_000
"""A leap year, in which birthdays without a year are validated."""


def claim_faults(claims: StandardClaims) -> Iterator[MetadataError]:
    """Yield every error; an empty claim is absent and never an error."""
    for name in TEXT_CLAIMS:
        is_good, code = _RULES.get(name, _TEXT)
        value: str = getattr(claims, name)
        if value and not is_good(value):
            yield input_fault(name, code, most=LONGEST)
    if claims.phone_number_verified and not claims.phone_number:
        yield input_fault("phone_number_verified", "claim.unverifiable")
    for name in Address.__struct_fields__:
        part: str = getattr(claims.address, name)
        if name in _SEVERAL_LINES:
            is_plain = len(part) <= LONGEST_ADDRESS and all(map(_is_plain, part.split("\n")))
            code, most = "text.lines", LONGEST_ADDRESS
        else:
            is_plain, code, most = _is_plain(part), "text.trimmed", LONGEST
        if part and not is_plain:
            yield input_fault(f"address/{name}", code, most=most)


def _is_plain(text: str) -> bool:
    # isprintable refuses controls, separators, surrogates and the bidi controls that reorder text.
    return len(text) <= LONGEST and text.isprintable() and text.strip() == text


def _is_birthdate(text: str) -> bool:
    match = _BIRTHDATE.fullmatch(text)
    if match is None:
        return False
    year = int(match[1])
    if match[2] is None:
        return year > 0
    try:
        date(year or _LEAP, int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _is_zone(text: str) -> bool:
    if _ZONE.fullmatch(text) is None:
        return False
    # Without a time zone database, every name is accepted.
    return _exists(text) or not _exists("UTC")


def _exists(zone: str) -> bool:
    # One file is read: a list of all of them would cost a hundred times as much.
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


_PHONE_SIGNS = re.compile(r"^tel:|\(0\)|[\s()./-]")
_WRITTEN_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", re.ASCII)


def normalized_number(text: str) -> str:
    """Return the number without what people and directories write between its digits."""
    return _PHONE_SIGNS.sub("", text)


def normalized_claims(claims: StandardClaims) -> StandardClaims:
    """Return the claims as they are stored where what is meant is certain; others as they are.

    So `en_GB` is en-GB, `1990-2-1` is 1990-02-01, a phone number has no spaces or hyphens, and no
    text has spaces around it.
    """
    texts: dict[str, str] = {name: getattr(claims, name).strip() for name in TEXT_CLAIMS}
    if match := _WRITTEN_DATE.fullmatch(texts["birthdate"]):
        texts["birthdate"] = f"{match[1]}-{match[2]:0>2}-{match[3]:0>2}"
    texts["locale"] = texts["locale"].replace("_", "-")
    texts["phone_number"] = normalized_number(texts["phone_number"])
    return StandardClaims(
        **texts,
        phone_number_verified=claims.phone_number_verified,
        address=Address(
            **{
                name: _trimmed_lines(part) if name in _SEVERAL_LINES else part.strip()
                for name, part in asdict(claims.address).items()
            }
        ),
    )


def _trimmed_lines(text: str) -> str:
    return "\n".join(map(str.strip, text.strip().splitlines()))


_SEVERAL_LINES = ("formatted", "street_address")
_Rule = tuple[Callable[[str], bool], str]
_TEXT: _Rule = (_is_plain, "text.trimmed")
_URL: _Rule = (is_link, "claim.link")
PICTURES = "/pictures"
"""The path below the issuer of pictures that users uploaded."""

# A server on loopback may do without https; its own pictures are there.
_OWN_PICTURE = re.compile(
    rf"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{{1,5}})?{PICTURES}/[A-Za-z0-9_-]{{22}}"
)
_PICTURE: _Rule = (
    lambda text: is_link(text) or _OWN_PICTURE.fullmatch(text) is not None,
    "claim.link",
)

_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "profile": _URL,
        "picture": _PICTURE,
        "website": _URL,
        "birthdate": (_is_birthdate, "claim.birthdate"),
        "zoneinfo": (_is_zone, "claim.zoneinfo"),
        "locale": (
            lambda text: _LOCALE.fullmatch(text) is not None,
            "claim.locale",
        ),
        "phone_number": (
            lambda text: _PHONE_NUMBER.fullmatch(text) is not None,
            "claim.phone_number",
        ),
    }
)
"""The rule of each claim that is not a name or another short text."""


_LONGEST = 200
Faults = tuple[MetadataError, ...]


class UserRecord(Struct, frozen=True):
    """The fields of an account that a caller chooses, unchecked."""

    username: str
    email: str
    name: str = ""
    email_verified: bool = True
    claims: StandardClaims = StandardClaims.NOTHING

    def __post_init__(self) -> None:
        """Write the address without spaces around, its domain in ASCII, and claims as stored."""
        msgspec.structs.force_setattr(self, "email", ascii_email(self.email))
        msgspec.structs.force_setattr(self, "claims", normalized_claims(self.claims))

    def faults(self) -> Faults:
        """Return every error."""
        errors: list[MetadataError] = []
        username = fold(self.username)
        names = (self.username, username)
        # Folded too: a full-width @ would make the name another's email address.
        plain = all(name.isprintable() and not set(name) & set(" @") for name in names)
        if not plain or not 0 < len(username) <= _LONGEST or username != fold(username):
            errors.append(input_fault("username", "username.form", most=_LONGEST))
        local, at, domain = self.email.rpartition("@")
        if (
            not (local and at and domain)
            or len(self.email) > _LONGEST
            or not self.email.isprintable()
            or " " in self.email
            or not domain.isascii()
        ):
            errors.append(input_fault("email", "claim.email"))
        if len(self.name) > _LONGEST or not self.name.isprintable():
            errors.append(input_fault("name", "text.printable", most=_LONGEST))
        return (*errors, *claim_faults(self.claims))


def _taken_field(tx: Transaction, user: User) -> str:
    """Return the field in which this account, which cannot be stored, is like another one."""
    other = tx.users.find_by_username(user.username)
    is_name = other is not None and other.uid != user.uid
    return "username" if is_name or tx.users.is_number_taken(user.username, user.uid) else "email"


class Accounts(Struct, frozen=True):
    """Registers and changes accounts. Its methods run inside a transaction."""

    random: Callable[[int], bytes]
    #: Sends emails about changes of an account; None to send none.
    notices: Notices | None = None
    #: Names beside the usual ones that no user may have: the brand's.
    reserved: tuple[str, ...] = ()

    def register(
        self,
        tx: Transaction,
        record: UserRecord,
        now: Instant,
        *,
        uid: int | None = None,
        password_hash: str | None = None,
        attributes: UserAttributes = UserAttributes.NOTHING,
    ) -> User | Faults:
        """Register an account. Return it, or every error. Without `uid` it gets a random one.

        `attributes` are judged already, in the same transaction.
        """
        if faults := (*record.faults(), *self.name_faults(record.username)):
            return faults
        if uid is not None and not 0 < uid <= LARGEST_UID:
            return (MetadataError("uid", f"a whole number from 1 to {LARGEST_UID}"),)
        user = User(
            uid=Uid(uid) if uid is not None else fresh_uid(self.random),
            username=record.username,
            email=record.email,
            email_verified_at=now if record.email_verified else None,
            name=record.name.strip(),
            created_at=now,
            changed_at=now,
            disabled_at=None,
            claims=record.claims,
            attributes=attributes,
        )
        if not tx.users.register(user):
            is_uid = uid is not None and tx.users.find(user.uid) is not None
            return (input_fault("uid" if is_uid else _taken_field(tx, user), "user.taken"),)
        tx.events.add(UserRegistered(user.uid), now)
        if password_hash is not None:
            tx.users.set_password_hash(user.uid, fresh_id("cr", self.random), password_hash, now)
        return user

    def change(
        self, tx: Transaction, user: User, record: UserRecord, now: Instant
    ) -> User | Faults:
        """Change an account. Return it, or every error."""
        is_new = fold(record.username) != fold(user.username)
        new_name = self.name_faults(record.username) if is_new else ()
        # An address of an earlier version stays as it was written until it changes.
        is_same = record.email == ascii_email(user.email)
        email = user.email if is_same else record.email
        wrong = (error for error in record.faults() if error.field != "email" or not is_same)
        if faults := (*wrong, *new_name):
            return faults
        verified = user.email_verified_at if record.email_verified else None
        if record.email_verified and (verified is None or not is_same):
            verified = now
        new = replace(
            user,
            username=record.username,
            email=email,
            name=record.name.strip(),
            email_verified_at=verified,
            claims=record.claims,
        )
        changed = changed_names(user, new)
        if not changed:
            return user
        new = replace(new, changed_at=now)
        if not tx.users.change(new):
            return (fault(_taken_field(tx, new), "username.taken"),)
        if "picture" in changed:
            tx.pictures.delete(user.uid)
        tx.events.add(UserChanged(user.uid, changed), now)
        if self.notices is not None and (new.email != user.email or verified is None):
            self.notices.email_changed(tx, user, new, now)
        elif self.notices is not None and "email_verified_at" in changed:
            self.notices.email_verified(tx, new, now)
        return new

    def name_faults(self, username: str) -> Faults:
        """Return the errors of a new username beyond its characters: reserved, or like an id."""
        code = username_code(username, self.reserved)
        return (input_fault("username", code),) if code else ()

    def verify_email(self, tx: Transaction, user: User, now: Instant) -> bool:
        """Mark the address as verified, and notify it. False if it was verified already."""
        if user.email_verified_at is not None:
            return False
        verified = self.confirm_email(tx, user, now)
        if self.notices is not None:
            self.notices.email_verified(tx, verified, now)
        return True

    def confirm_email(self, tx: Transaction, user: User, now: Instant) -> User:
        """Mark the address as verified, and return the user as it is now."""
        verified = replace(user, email_verified_at=now, changed_at=now)
        tx.users.change(verified)
        tx.events.add(UserChanged(user.uid, ("email_verified_at",)), now)
        return verified

    def reset_factors(self, tx: Transaction, user: User, now: Instant) -> bool:
        """Remove everything but the password, sign the user out, and notify them.

        False if there was nothing to take.
        """
        if not reset_factors(tx, user, now):
            return False
        if self.notices is not None:
            self.notices.factors_reset(tx, user, now)
        return True

    def set_password(
        self, tx: Transaction, user: User, data: str, now: Instant, *, keep: str = ""
    ) -> None:
        """Store the hash of a new password; sessions and grants end.

        Remembered devices are forgotten. The session with the id `keep` continues.
        """
        tx.users.hold_alone(user.uid)
        tx.users.set_password_hash(user.uid, fresh_id("cr", self.random), data, now)
        tx.events.add(PasswordChanged(user.uid), now)
        forget_devices(tx, user.uid, now)
        if self.notices is not None:
            self.notices.password_changed(tx, user, now)
        end_everything(tx, user, now, "password_changed", keep=keep)

    def disable(self, tx: Transaction, user: User, now: Instant, directory: str = "") -> bool:
        """Disable an account; its sessions, grants and what it issued to others end.

        `directory` is the credential of the directory that asks, which may enable the account
        again; "" for an administrator, who also takes over what a directory disabled. False if
        nothing changed.
        Raises Refused (conflict) for the last owner.
        """
        tx.users.hold_alone(user.uid)
        if user.disabled_at is not None and (directory or not user.disabled_by):
            return False
        leave_an_owner(tx, user)
        tx.users.change(replace(user, disabled_at=now, disabled_by=directory, changed_at=now))
        tx.events.add(UserDisabled(user.uid), now)
        end_everything(tx, user, now, "user_disabled")
        end_issued(tx, user.uid, now)
        return True

    def enable(self, tx: Transaction, user: User, now: Instant, directory: str = "") -> bool:
        """Enable an account; nothing that ended comes back. False if it was enabled, or removed.

        Also False if a `directory` asks that did not itself disable it.
        """
        if user.disabled_at is None or tx.account_removals.is_done(user.uid):
            return False
        if directory not in {"", user.disabled_by}:
            return False
        tx.users.change(replace(user, disabled_at=None, disabled_by="", changed_at=now))
        tx.events.add(UserEnabled(user.uid), now)
        return True


def changed_names(before: User, after: User) -> tuple[str, ...]:
    """Return the names of the fields that differ, standard claims by their own names."""
    names = ("username", "email", "name", "email_verified_at")
    claims = StandardClaims.__struct_fields__
    return (
        *(name for name in names if getattr(before, name) != getattr(after, name)),
        *(name for name in claims if getattr(before.claims, name) != getattr(after.claims, name)),
    )


def end_everything(
    tx: Transaction, user: User, now: Instant, because: str, *, keep: str = ""
) -> None:
    """End every session but `keep` and every grant, and notify apps and resource servers."""
    end_all_of_user(tx, user.uid, now, because, keep=keep)


def sign_out_everywhere(tx: Transaction, user: User, now: Instant) -> int:
    """End every session and the access bound to sessions. Return the number of sessions."""
    tx.users.hold_alone(user.uid)
    sessions = tx.sessions.count_live(user.uid, now)
    if sessions:
        end_sessions(tx, user.uid, now, "signed_out_by_administrator")
    return sessions


def withdraw(tx: Transaction, uid: Uid, grant_id: str, now: Instant) -> bool:
    """End one grant of a user, and require consent next time.

    False if there is no such live grant of this user.
    """
    tx.users.hold_alone(uid)
    grant_state = tx.grants.find(grant_id)
    if grant_state is None or grant_state.grant.uid != uid or grant_state.liveness.ended(now):
        return False
    if not tx.grants.revoke(grant_id, now, "user_withdrew"):
        return False
    if tx.consents.delete(uid, grant_state.grant.client_id):
        tx.events.add(ConsentWithdrawn(uid, grant_state.grant.client_id), now)
    event = GrantRevoked(uid, grant_state.grant.client_id, grant_id, "user_withdrew")
    tx.events.add(event, now)
    return True


def fresh_uid(random: Callable[[int], bytes]) -> Uid:
    """Generate a uid that cannot be guessed from another."""
    above = int.from_bytes(random(7), "big") % (LARGEST_UID - SMALLEST_UID + 1)
    return Uid(SMALLEST_UID + above)


Name = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200)]
Username = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=200)]
Email = Annotated[
    str, matching(r"^\s*[^\s@]+@[^\s@]+\s*$", "claim.email"), msgspec.Meta(max_length=200)
]
_Uid = Annotated[
    int, msgspec.Meta(ge=1, le=LARGEST_UID, description="Identifies the user; random by default.")
]


def _text(description: str, longest: int = 2_000) -> msgspec.Meta:
    return msgspec.Meta(pattern=NO_CONTROLS, max_length=longest, description=description)


class PostalAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A postal address (OpenID Connect Core section 5.1.1)."""

    formatted: (
        Annotated[str, msgspec.Meta(max_length=1_000, description="The address as on an envelope.")]
        | UnsetType
    ) = UNSET
    street_address: Annotated[str, msgspec.Meta(max_length=1_000)] | UnsetType = UNSET
    locality: Name | UnsetType = UNSET
    region: Name | UnsetType = UNSET
    postal_code: Name | UnsetType = UNSET
    country: Name | UnsetType = UNSET


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The standard claims of a user (OpenID Connect Core section 5.1); "" for absent ones."""

    given_name: Name | UnsetType = UNSET
    family_name: Name | UnsetType = UNSET
    middle_name: Name | UnsetType = UNSET
    nickname: Name | UnsetType = UNSET
    profile: Annotated[str, _text("URL of the user's profile page.")] | UnsetType = UNSET
    picture: Annotated[str, _text("URL of a picture of the user.")] | UnsetType = UNSET
    website: Annotated[str, _text("URL of the user's own website.")] | UnsetType = UNSET
    gender: Name | UnsetType = UNSET
    birthdate: Annotated[str, _text("YYYY-MM-DD, YYYY, or 0000-MM-DD.", 200)] | UnsetType = UNSET
    zoneinfo: Annotated[str, _text("Time zone, such as Europe/London.")] | UnsetType = UNSET
    locale: Annotated[str, _text("Language, such as en-GB.")] | UnsetType = UNSET
    phone_number: Annotated[str, _text("In E.164 format, such as +442079460000.")] | UnsetType = (
        UNSET
    )
    phone_number_verified: (
        Annotated[bool, msgspec.Meta(description="Whether the phone number is the user's.")]
        | UnsetType
    ) = UNSET
    address: PostalAddress | UnsetType = UNSET


EmailVerified = Annotated[bool, msgspec.Meta(description="Whether the address is the user's.")]


class UserWanted(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account. Through the API it has no password: the user sets one by email."""

    username: Username
    email: Annotated[
        Email,
        msgspec.Meta(description="The user can sign in with it as well as with the username."),
    ]
    name: Annotated[Name, msgspec.Meta(description="The full name.")] = ""
    email_verified: EmailVerified | UnsetType = UNSET
    uid: _Uid | UnsetType = UNSET


def wanted_record(values: UserWanted) -> UserRecord:
    """Return the record of a new account. Its address is verified unless stated otherwise."""
    verified = True if isinstance(values.email_verified, UnsetType) else values.email_verified
    claims = changed_claims(StandardClaims.NOTHING, described(values))
    return UserRecord(values.username, values.email, values.name, verified, claims)


def changed_claims(before: StandardClaims, members: Mapping[str, object]) -> StandardClaims:
    """Return the claims with those of `said` replaced, unchecked; an address by its parts.

    A new phone number is verified only if stated.
    """
    names = StandardClaims.__struct_fields__
    claims = {name: value for name, value in members.items() if name in names}
    parts = msgspec.convert(claims.pop("address", {}), dict[str, str])
    address = asdict(before.address) | parts
    after = msgspec.convert({**asdict(before), **claims, "address": address}, StandardClaims)
    if "phone_number_verified" in claims or after.phone_number == before.phone_number:
        return after
    return replace(after, phone_number_verified=False)


def described(profile: Profile) -> Mapping[str, object]:
    """Return the fields that are stated."""
    members: dict[str, object] = msgspec.to_builtins(profile)
    return members
