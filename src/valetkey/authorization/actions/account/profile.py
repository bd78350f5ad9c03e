"""Profile form: validation, pictures, and changes with optimistic locking."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.attributes import (
    attribute_faults,
    attributes_of,
    change_attributes,
    shown_value,
    typed_value,
)
from valetkey.authorization.actions.users import (
    PICTURES,
    Accounts,
    UserRecord,
    is_choosable,
    is_reserved,
)
from valetkey.authorization.authentication.session import find_still_signed_in
from valetkey.authorization.model.user import TEXT_CLAIMS, Address, Attribute, StandardClaims, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import FingerprintKey, to_base64url

ADDRESS = ("street_address", "locality", "region", "postal_code", "country")
"""The parts of a postal address that are edited; `formatted` is derived from them."""

FIELDS = ("username", "name", *TEXT_CLAIMS, *ADDRESS)
"""Every field of the form, in display order."""

ATTRIBUTE = "attribute."
"""The prefix of the names of fields for declared attributes."""

_LINKS = ("profile", "picture", "website")
_BETWEEN_DIGITS = str.maketrans("", "", " -/().\u00a0\u2011")

Submitted = Mapping[str, str]


class ProfileFault(StrEnum):
    """The reason why one field is rejected."""

    TAKEN = "taken"  # another user has this username
    WRONG = "wrong"  # the field's own rule rejects the value


class ProfileRejected(Struct, frozen=True):
    """Nothing was changed: `faults` by field, or the profile was changed by another request."""

    faults: Mapping[str, ProfileFault]
    user: User | None
    """The current user; None if the session or the account has ended."""

    @property
    def is_stale(self) -> bool:
        """Return whether another request changed the profile after the form was shown."""
        return not self.faults


def profile_of(user: User) -> dict[str, str]:
    """Return the current fields."""
    claims = user.claims
    return {
        "username": user.username,
        "name": user.name,
        **{name: getattr(claims, name) for name in TEXT_CLAIMS},
        **{name: getattr(claims.address, name) for name in ADDRESS},
    }


def profile_version(user: User, key: FingerprintKey) -> str:
    """Return a hash of the profile's current values, by which a stale form is detected."""
    parts = "\0".join(f"{name}={text}" for name, text in profile_of(user).items())
    return key.fingerprint("profile", f"{user.uid}\0{parts}\0{user.attributes.encode()}")


def attributes_typed(user: User, declared: Sequence[Attribute]) -> dict[str, str]:
    """Return the values of the attributes that users may edit, as text by the field's name."""
    values = attributes_of(user, [attribute for attribute in declared if attribute.editable])
    return {f"{ATTRIBUTE}{name}": shown_value(value) for name, value in values.items()}


def _changes(user: User, declared: Sequence[Attribute], typed: Submitted) -> dict[str, object]:
    """Return the attributes whose submitted value differs from the stored one."""
    before = attributes_typed(user, declared)
    return {
        attribute.name: typed_value(attribute, typed[name])
        for attribute in declared
        if attribute.editable
        and (name := f"{ATTRIBUTE}{attribute.name}") in typed
        and typed[name].strip() != before.get(name, "")
    }


def _wrong_attributes(
    declared: Sequence[Attribute], changes: Mapping[str, object]
) -> dict[str, ProfileFault]:
    """Return the fields of the attributes that are wrong: all of them if the fault names none."""
    wrong: list[str] = []
    for fault in attribute_faults(declared, changes):
        name = fault.field.partition("/")[2].partition("/")[0]
        wrong += [name] if name else changes
    return {f"{ATTRIBUTE}{name}": ProfileFault.WRONG for name in wrong}


def normalized(typed: Submitted) -> dict[str, str]:
    """Return the fields without surrounding spaces, links with a scheme, plain numbers."""
    values = {name: typed.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    for name in _LINKS:
        if values[name] and "://" not in values[name]:
            values[name] = f"https://{values[name]}"
    values["phone_number"] = values["phone_number"].translate(_BETWEEN_DIGITS)
    return values


class ProfileChange(Struct, frozen=True):
    """Change the profile of a signed-in user."""

    accounts: Accounts
    sessions: SessionSettings
    key: FingerprintKey
    brand_name: str

    def change(
        self, tx: Transaction, session_id: str, typed: Submitted, mark: str, now: Instant
    ) -> User | ProfileRejected:
        """Store the fields. Return the account. `mark` identifies the state that the form showed.

        If the profile has changed since, nothing is written, unless the fields are equal to it.
        """
        asking = find_still_signed_in(tx, session_id, self.sessions, now)
        user = None if asking is None else tx.users.find_to_change(asking.user.uid)
        if user is None:
            return ProfileRejected({}, None)
        values = normalized(typed)
        declared = tx.attributes()
        changes = _changes(user, declared, typed)
        if values == profile_of(user) and not changes:
            return user
        record = _record(user, values)
        faults = {
            fault.field.removeprefix("address/"): ProfileFault.WRONG for fault in record.faults()
        }
        faults |= _wrong_attributes(declared, changes)
        # The current username may stay: it was assigned, or chosen under other rules.
        if values["username"] != user.username and "username" not in faults:
            if not is_choosable(values["username"]):
                faults["username"] = ProfileFault.WRONG
            elif is_reserved(values["username"], (self.brand_name,)):
                faults["username"] = ProfileFault.TAKEN
        if faults or mark != profile_version(user, self.key):
            return ProfileRejected(faults, user)
        changed = self.accounts.change(tx, user, record, now)
        if isinstance(changed, User):
            after = change_attributes(tx, changed, changes, now)
            # Together, values may be too large; raise, so that everything is rolled back.
            if isinstance(after, tuple):
                raise Refused.because(ErrorCode.INVALID_REQUEST, after[0].detail, "attributes")
            return after
        return ProfileRejected({"username": ProfileFault.TAKEN}, user)


def _record(user: User, values: Submitted) -> UserRecord:
    before = user.claims
    parts = {name: values[name] for name in ADDRESS}
    same = all(getattr(before.address, name) == text for name, text in parts.items())
    # `formatted` contains the old parts.
    address = before.address if same else Address(**parts)
    number = values["phone_number"]
    claims = replace(
        StandardClaims.NOTHING,
        **{name: values[name] for name in TEXT_CLAIMS},
        # A changed number is not verified.
        phone_number_verified=before.phone_number_verified and number == before.phone_number,
        address=address,
    )
    verified = user.email_verified_at is not None
    return UserRecord(values["username"], user.email, values["name"], verified, claims)


class PictureChange(Struct, frozen=True):
    """Change the picture of a signed-in user. `issuer` is the URL of this server."""

    accounts: Accounts
    sessions: SessionSettings
    issuer: str
    random: Callable[[int], bytes]

    def upload(self, tx: Transaction, session_id: str, image: bytes, now: Instant) -> User | None:
        """Store the picture and set the claim `picture` to its address; None if signed out.

        The address is new for every picture, so that no cache shows the previous one.
        """
        name = to_base64url(self.random(16))
        user = self._change(tx, session_id, f"{self.issuer}{PICTURES}/{name}", now)
        if user is not None:
            tx.pictures.store(user.uid, name, image)
        return user

    def remove(self, tx: Transaction, session_id: str, now: Instant) -> User | None:
        """Delete the uploaded picture and clear the claim; None if signed out.

        An address that the user or an app set in the meantime stays.
        """
        asking = find_still_signed_in(tx, session_id, self.sessions, now)
        if asking is None:
            return None
        user = tx.users.find_to_change(asking.user.uid)
        if user is None or not tx.pictures.name_of(user.uid):
            return user
        return self._change(tx, session_id, "", now)

    def _change(self, tx: Transaction, session_id: str, picture: str, now: Instant) -> User | None:
        asking = find_still_signed_in(tx, session_id, self.sessions, now)
        user = None if asking is None else tx.users.find_to_change(asking.user.uid)
        if user is None:
            return None
        claims = replace(user.claims, picture=picture)
        verified = user.email_verified_at is not None
        record = UserRecord(user.username, user.email, user.name, verified, claims)
        changed = self.accounts.change(tx, user, record, now)
        if isinstance(changed, User):
            return changed
        # Another field of the account breaks a rule that is newer than the account.
        detail = "; ".join(f"{fault.field}: {fault.detail}" for fault in changed)
        raise Refused.because(ErrorCode.INVALID_REQUEST, detail, "picture.account")
