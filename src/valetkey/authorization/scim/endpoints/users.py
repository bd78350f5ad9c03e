"""Users as SCIM resources, and the names for apps that users and groups get."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import cast

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.roles import user_to_change
from valetkey.authorization.actions.attributes import change_attributes, merged_attributes
from valetkey.authorization.actions.users import (
    Faults,
    UserRecord,
    claim_faults,
    normalized_claims,
    normalized_number,
)
from valetkey.authorization.model.user import (
    Address,
    StandardClaims,
    User,
    UserAttributes,
    fold,
    shown_email,
    uid_of,
)
from valetkey.authorization.scim.endpoints.filter import (
    Compare,
    Filter,
    apply,
    matches,
    read_changes,
)
from valetkey.authorization.scim.endpoints.message import Caller, ScimRequest, View, with_meta
from valetkey.authorization.scim.endpoints.schema import (
    EXTENSION,
    LeftOut,
    Resource,
    Schema,
    conflict,
    external_id,
    left_name,
    left_out_text,
    refuse,
    restored,
    short_text,
    still_left_out,
)
from valetkey.authorization.scim.storage import ScimUser, ScimUsers, ScimValuesIgnored, scim_users
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

_CLAIMS = {
    "nickName": "nickname",
    "profileUrl": "profile",
    "locale": "locale",
    "timezone": "zoneinfo",
}
_NAMES = {"givenName": "given_name", "familyName": "family_name", "middleName": "middle_name"}
_ADDRESS = {
    "formatted": "formatted",
    "streetAddress": "street_address",
    "locality": "locality",
    "region": "region",
    "postalCode": "postal_code",
    "country": "country",
}
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    **{ours: (name,) for name, ours in _CLAIMS.items()},
    **{ours: ("name", name) for name, ours in _NAMES.items()},
    **{f"address/{ours}": ("addresses", name) for name, ours in _ADDRESS.items()},
}
_SEVERAL = ("emails", "phoneNumbers", "addresses")
_USUAL: Mapping[str, object] = {"type": "work", "primary": True}
_MARKS = msgspec.json.Decoder(dict[str, Resource])


class Sent(Struct, frozen=True):
    """A resource as it was sent, `name.formatted`, and what was left out of it."""

    resource: Resource
    formatted: str = ""
    left: frozenset[tuple[str, ...]] = frozenset()


class Users(Struct, frozen=True):
    """Users as SCIM resources. Its methods run inside a transaction."""

    schema: Schema
    plural: str = "Users"
    indexed: frozenset[str] = frozenset({"id", "userName", "externalId", "emails.value"})

    def one(self, tx: Transaction, caller: Caller, id: str, view: View) -> Resource | None:
        """Return a user with what the caller's directory stored of it."""
        uid = uid_of(id)
        scim_user = None if uid is None else _rows(tx, caller).find(uid)
        return None if scim_user is None else self._shown(tx, caller, scim_user, view)

    def some(
        self, tx: Transaction, caller: Caller, view: View, ids: Sequence[str]
    ) -> Sequence[Resource]:
        """Return those of these users that exist."""
        resources = [self.one(tx, caller, user_id, view) for user_id in ids]
        return [resource for resource in resources if resource is not None]

    def page(
        self, tx: Transaction, caller: Caller, view: View, offset: int, limit: int, *, back: bool
    ) -> Sequence[Resource]:
        """Return some users by uid."""
        rows = _rows(tx, caller)
        listed_users = rows.page(offset, limit, back=back)
        return [self._shown(tx, caller, scim_user, view) for scim_user in listed_users]

    def count(self, tx: Transaction, caller: Caller) -> int:
        """Count all users, up to a million, for the `totalResults` of a list without a filter."""
        return _rows(tx, caller).count()

    def candidates(self, tx: Transaction, caller: Caller, resource: Compare) -> Sequence[str]:
        """Return the ids that an index has for an equality."""
        rows, text = _rows(tx, caller), str(resource.value)
        if resource.name == "id":
            return [text]
        if resource.name == "externalId":
            uids = [rows.external(text)]
        elif resource.name == "userName":
            user = tx.users.find_by_name(text)
            uids = [rows.named(text), user.uid if user else None]
        else:
            user = tx.users.find_by_email(text)
            uids = [user.uid if user else None]
        return [str(uid) for uid in uids if uid is not None]

    def filtering(self, tx: Transaction, condition: Filter) -> Callable[[Resource], bool]:
        """Return whether the filter holds for a user, who is found by email as a `userName` too.

        A directory whose user names are email addresses thus finds accounts that it did not create.
        """
        del tx

        def fits(resource: Resource) -> bool:
            emails = cast("list[Resource]", resource.get("emails", []))
            # A directory may write an international domain in its letters.
            lettered = ({**email, "value": shown_email(str(email["value"]))} for email in emails)
            emails = [*emails, *(email for email in lettered if email not in emails)]
            names = [resource["userName"], *(email["value"] for email in emails)]
            return matches(condition, {**resource, "userName": names, "emails": emails})

        return fits

    def creating(self, request: ScimRequest) -> Callable[[Transaction], str]:
        """Read the request; return the work that creates the user and returns the id.

        Both raise Refused.
        """
        sent = self._read(request.body)
        return lambda tx: self._create(tx, request.caller, sent)

    def replacing(self, request: ScimRequest) -> Callable[[Transaction, str], None]:
        """Read the request; return the work that replaces the user (section 3.5.1)."""
        sent = self._read(request.body)

        def replace_user(tx: Transaction, id: str) -> None:
            scim_user = self._held(tx, request, id)
            left = set(sent.left)
            resource = restored(sent.resource, self._described(scim_user), left)
            extends = EXTENSION in sent.resource
            self._save(
                tx, request.caller, scim_user, replace(sent, resource=resource), left, extends
            )

        return replace_user

    def patching(self, request: ScimRequest) -> Callable[[Transaction, str], None]:
        """Read the request; return the work that applies its operations (section 3.5.2)."""
        unread = LeftOut()
        changes = read_changes(request.body, self.schema, unread)
        touched = {left_name(change.path.where).partition(".")[0] for change in changes}

        def patch_user(tx: Transaction, id: str) -> None:
            scim_user = self._held(tx, request, id)
            left = set(unread)
            before = self._described(scim_user)
            after = apply(before, changes, left)
            stays = still_left_out(scim_user.left_out, touched)
            if after != before or left or stays != scim_user.left_out:
                self._save(tx, request.caller, scim_user, Sent(after), left, True, stays)

        return patch_user

    def delete(self, tx: Transaction, request: ScimRequest, id: str) -> None:
        """Delete the account, as the console does. Raises Refused."""
        user = self._held(tx, request, id).user
        request.caller.services.removal.remove(tx, user, request.caller.now)

    def _held(self, tx: Transaction, request: ScimRequest, id: str) -> ScimUser:
        """Return the user, locked until the commit, whom the caller may change."""
        caller = request.caller
        uid = uid_of(id)
        if uid is None:
            raise not_found()
        # First: the credential is locked before any user.
        require(tx, caller.actor, Permission.USERS)
        user = user_to_change(tx, uid, caller.actor)
        require(tx, caller.actor, Permission.USERS, user)
        scim_user = _rows(tx, caller).find(uid)
        if scim_user is None:
            raise not_found()
        meta = cast("Resource", self._shown(tx, caller, scim_user, View())["meta"])
        request.preconditions.check(str(meta["version"]))
        return scim_user

    def _read(self, body: object) -> "Sent":
        left = LeftOut()
        resource = self.schema.read(body, left)
        short_text(resource, "userName")
        return Sent(resource, _formatted(body), frozenset(left))

    def _create(self, tx: Transaction, caller: Caller, sent: "Sent") -> str:
        require(tx, caller.actor, Permission.USERS)
        resource, left = sent.resource, set(sent.left)
        user_name = short_text(resource, "userName")
        if _rows(tx, caller).named(user_name) is not None:
            conflict("another user has this userName")
        record = _record(sent, user_name if "@" in user_name else "", None, left)
        if tx.users.find_by_email(record.email) is not None:
            conflict("another user has this email address")
        record = replace(record, username=_free_username(tx, caller, user_name))
        user = _made(caller.services.accounts.register(tx, record, caller.now))
        # Before rows are changed, as decision 0015 orders locks.
        tx.users.hold_alone(user.uid)
        self._extend(tx, caller, user, resource, left)
        if resource.get("active") is False:
            caller.services.accounts.disable(tx, user, caller.now, caller.actor.credential_id)
        self._name(tx, caller, ScimUser(user, "", ""), resource, left)
        return str(user.uid)

    def _save(
        self,
        tx: Transaction,
        caller: Caller,
        scim_user: ScimUser,
        sent: "Sent",
        left: LeftOut,
        extends: bool,
        stays: str = "",
    ) -> None:
        accounts, user, resource = caller.services.accounts, scim_user.user, sent.resource
        user_name = short_text(resource, "userName")
        username = _renamed(tx, caller, scim_user, user_name)
        record = replace(_record(sent, user.email, user, left), username=username)
        changed = _changed(tx, caller, user, record, left)
        if extends:
            self._extend(tx, caller, changed, resource, left)
        if resource.get("active") is False:
            accounts.disable(tx, changed, caller.now, caller.actor.credential_id)
        elif resource.get("active") is True:
            # An account that an administrator disabled stays so; the response says it.
            accounts.enable(tx, changed, caller.now, caller.actor.credential_id)
        self._name(tx, caller, scim_user, resource, left, stays)

    def _extend(
        self, tx: Transaction, caller: Caller, user: User, resource: Resource, left: LeftOut
    ) -> None:
        """Change the declared attributes, without the values that their schemas do not allow."""
        names = [attribute.name for attribute in self.schema.extensions.get(EXTENSION, ())]
        if not names:
            return
        members = cast("Resource", resource.get(EXTENSION, {}))
        declared = tx.attributes()
        kept: Resource = {}
        values = user.attributes
        for name in names:
            after = merged_attributes(declared, values, {name: members.get(name)})
            if isinstance(after, UserAttributes):
                values, kept[name] = after, members.get(name)
            else:
                left.add((EXTENSION, name))
        change_attributes(tx, user, kept, caller.now)

    def _name(
        self,
        tx: Transaction,
        caller: Caller,
        scim_user: ScimUser,
        resource: Resource,
        left: LeftOut,
        stays: str = "",
    ) -> None:
        """Store the directory's names of the user, and the names of what was left out."""
        uid, rows = scim_user.user.uid, _rows(tx, caller)
        name, external = short_text(resource, "userName"), external_id(resource, scim_user, left)
        marks = msgspec.json.encode(_marks(resource)).decode()

        def write(external: str) -> bool:
            text = left_out_text(left, stays)
            return rows.name(uid, name, external, left_out=text, marks=marks)

        if not write(external):
            is_new = not scim_user.user_name
            left.add(("externalId",))
            if is_new or not write(scim_user.external_id):
                conflict("another user has this userName or externalId")
        text = left_out_text(left, stays)
        if left and text != scim_user.left_out:
            event = ScimValuesIgnored(caller.actor.credential_id, tuple(text.split(", ")), uid=uid)
            tx.events.add(event, caller.now)

    def _shown(self, tx: Transaction, caller: Caller, scim_user: ScimUser, view: View) -> Resource:
        user = scim_user.user
        resource = {"schemas": [self.schema.urn], "id": str(user.uid), **self._described(scim_user)}
        if view.shows("groups", is_requested=True):
            resource["groups"] = [
                {
                    "value": group.id,
                    "$ref": f"{caller.base}/Groups/{group.id}",
                    "display": group.name,
                }
                for group in tx.groups.direct(user.uid)
            ]
        location = f"{caller.base}/Users/{user.uid}"
        return with_meta(resource, "User", location, user.created_at, user.changed_at)

    def _described(self, scim_user: ScimUser) -> Resource:
        """Return the attributes of a user that a directory may write."""
        names = [attribute.name for attribute in self.schema.extensions.get(EXTENSION, ())]
        values = scim_user.user.attributes.values
        extended = {name: values[name] for name in names if name in values}
        return {**_described(scim_user), **({EXTENSION: extended} if extended else {})}


def not_found() -> Refused:
    """Return the refusal of an unknown resource."""
    return Refused.because(ErrorCode.NOT_FOUND, "this resource does not exist", "scim.resource")


def _rows(tx: Transaction, caller: Caller) -> ScimUsers:
    return scim_users(tx, caller.actor.credential_id)


def _described(scim_user: ScimUser) -> Resource:
    user, claims = scim_user.user, scim_user.user.claims
    resource: Resource = {
        "userName": scim_user.user_name or user.username,
        "externalId": scim_user.external_id,
        "name": _kept({name: getattr(claims, ours) for name, ours in _NAMES.items()}),
        "displayName": user.name,
        **{name: getattr(claims, ours) for name, ours in _CLAIMS.items()},
    }
    address = _kept({name: getattr(claims.address, ours) for name, ours in _ADDRESS.items()})
    marks = _MARKS.decode(scim_user.marks)
    if user.email:
        resource["emails"] = [{"value": user.email, **_USUAL, **marks.get("emails", {})}]
    if claims.phone_number:
        phone: Resource = {"value": claims.phone_number}
        resource["phoneNumbers"] = [{**phone, **_USUAL, **marks.get("phoneNumbers", {})}]
    if address:
        resource["addresses"] = [{**address, **_USUAL, **marks.get("addresses", {})}]
    return {**_kept(resource), "active": user.disabled_at is None}


def _kept(members: Mapping[str, object]) -> Resource:
    return {name: value for name, value in members.items() if value}


def _marks(resource: Resource) -> Mapping[str, Resource]:
    """Return `type` and `primary` of each value that is kept, where they are not the usual ones."""
    unusual_marks: dict[str, Resource] = {}
    for name in _SEVERAL:
        main = _main(resource, name)
        marks = {part: main[part] for part in _USUAL if main.get(part) not in {None, _USUAL[part]}}
        if marks:
            unusual_marks[name] = marks
    return unusual_marks


def _record(sent: "Sent", email: str, before: User | None, left: LeftOut) -> UserRecord:
    """Return the record without its username; what it cannot have stays as `before`.

    `email` is used if the directory gives none.
    """
    resource = sent.resource
    name = cast("Resource", resource.get("name", {}))
    address = _main(resource, "addresses")
    old = before.claims if before is not None else StandardClaims.NOTHING
    phone = _usable(resource, "phoneNumbers", _is_phone_number, left)
    if phone is None:
        phone = old.phone_number
    claims = replace(
        old,
        **{ours: str(resource.get(attribute, "")) for attribute, ours in _CLAIMS.items()},
        **{ours: str(name.get(part_name, "")) for part_name, ours in _NAMES.items()},
        phone_number=phone,
        phone_number_verified=old.phone_number_verified and phone == old.phone_number,
        address=Address(
            **{ours: str(address.get(part_name, "")) for part_name, ours in _ADDRESS.items()}
        ),
    )
    claims = normalized_claims(claims)
    for fault in claim_faults(claims):
        left.add(_ATTRIBUTES[fault.field])
        first, _, part = fault.field.partition("/")
        if part:
            claims = replace(
                claims, address=replace(claims.address, **{part: getattr(old.address, part)})
            )
        else:
            claims = replace(claims, **{first: getattr(old, first)})
    display_name = str(resource.get("displayName", ""))
    full = display_name or sent.formatted
    if not _is_name(full):
        left.add(("displayName",))
        full = sent.formatted if _is_name(sent.formatted) else ""
        full = full or (before.name if before is not None else "")
    email = _address(_usable(resource, "emails", _is_email, left) or email, resource, before)
    is_same = before is not None and fold(email) == fold(before.email)
    verified = before is None or (is_same and before.email_verified_at is not None)
    return UserRecord("", email, full, claims=claims, email_verified=verified)


def _address(email: str, resource: Resource, before: User | None) -> str:
    """Return the email address, which is never that of a deleted user.

    Such a user is inactive, and keeps the address from before until it is restored.
    """
    if not is_tombstone(email):
        return email
    inactive = resource.get("active") is False
    if before is None:
        return without_tombstone(email) if inactive else email
    inactive = inactive or (before.disabled_at is not None and resource.get("active") is not True)
    is_own = fold(without_tombstone(email)) == fold(before.email)
    return before.email if inactive or is_own else email


def _usable(
    resource: Resource, name: str, is_usable: Callable[[str], bool], left: LeftOut
) -> str | None:
    """Return the first value that can be kept, primary ones first; "" for none, None if unusable.

    Says in `left` that the one that counts was not kept.
    """
    texts = [str(value["value"]) for value in _ordered(resource, name) if value.get("value")]
    if name == "phoneNumbers":
        texts = [normalized_number(text) for text in texts]
    usable_text = next((text for text in texts if is_usable(text)), None)
    if texts and usable_text != texts[0]:
        left.add((name,))
    return usable_text if usable_text is not None or texts else ""


def _is_phone_number(text: str) -> bool:
    return not any(claim_faults(StandardClaims(phone_number=text)))


def _is_email(text: str) -> bool:
    return not any(fault.field == "email" for fault in UserRecord("x", text).faults())


def _is_name(text: str) -> bool:
    return not any(fault.field == "name" for fault in UserRecord("x", "x@x", text).faults())


def _formatted(body: object) -> str:
    """Return `name.formatted`, which directories send as the full name in addition to its parts."""
    name = cast("Resource", body).get("name") if isinstance(body, dict) else None
    full = cast("Resource", name).get("formatted") if isinstance(name, dict) else None
    return full if isinstance(full, str) else ""


def _ordered(resource: Resource, name: str) -> Sequence[Resource]:
    """Return the values of an attribute, primary ones first: the first is the one that counts."""
    values = cast("list[Resource]", resource.get(name) or [])
    return sorted(values, key=lambda value: value.get("primary") is not True)


def _main(resource: Resource, name: str) -> Resource:
    """Return the value that is kept: the primary one, otherwise the first."""
    values = _ordered(resource, name)
    return values[0] if values else {}


def _changed(
    tx: Transaction, caller: Caller, user: User, record: UserRecord, left: LeftOut
) -> User:
    """Change the account; an email address that another account has is left out."""
    changed = caller.services.accounts.change(tx, user, record, caller.now)
    if isinstance(changed, tuple) and fold(record.email) != fold(user.email):
        left.add(("emails",))
        verified = user.email_verified_at is not None
        record = replace(record, email=user.email, email_verified=verified)
        changed = caller.services.accounts.change(tx, user, record, caller.now)
    return _made(changed)


def _free_username(tx: Transaction, caller: Caller, user_name: str, own: User | None = None) -> str:
    """Return the username that a `userName` gives the account; raise Refused if it is taken.

    Usernames contain no @, so that none looks like another user's email address: what precedes it
    is taken, with a suffix where another account has that, or where no user may have it.
    """
    accounts = caller.services.accounts

    def is_usable(username: str) -> bool:
        faults = (*UserRecord(username, "x@x").faults(), *accounts.name_faults(username))
        return not faults

    uid = 0 if own is None else own.uid

    def is_free(username: str) -> bool:
        user = tx.users.find_by_username(username)
        is_own = user is None or user.uid == uid
        return is_own and not tx.users.is_number_taken(username, uid)

    if "@" not in user_name and is_usable(user_name):
        if not is_free(user_name):
            conflict("another user has this userName")
        return user_name
    name = username_of(user_name)
    for username in (name, f"{name or 'u'}-{accounts.random(4).hex()}"):
        if username and is_usable(username) and is_free(username):
            return username
    # Not even with a suffix: letters of several alphabets, or an id.
    return f"u-{accounts.random(8).hex()}"


def _renamed(tx: Transaction, caller: Caller, scim_user: ScimUser, user_name: str) -> str:
    """Return the username of an account after its directory gave it this `userName`.

    It changes with what the directory changes; one that was changed here stays otherwise.
    """
    user, before = scim_user.user, scim_user.user_name
    if not before and "@" in user_name:
        # The directory takes over an account that exists.
        return user.username
    if fold(user_name) == fold(before) or username_of(user_name) == username_of(before):
        return user.username
    return _free_username(tx, caller, user_name, user)


def _made(made: User | Faults) -> User:
    if isinstance(made, User):
        return made
    if "taken" in made[0].detail:
        conflict("another user has this userName or email address")
    return refuse("invalidValue", "; ".join(f"{fault.field}: {fault.detail}" for fault in made))


_LONGEST_GROUP = 80
_LONGEST_USERNAME = 190
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_UNUSABLE = re.compile(r"[\s@:]")
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ẞ": "SS",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "Œ": "OE",
        "þ": "th",
        "Þ": "Th",
        **dict(zip("øØłŁđĐðÐħĦıŋ", "oOlLdDdDhHin", strict=True)),
    }
)
"""Latin letters that Unicode does not decompose into a letter of ASCII."""

_TOMBSTONE = re.compile(r"[0-9a-f]{32}(?=[^@]+@)", re.IGNORECASE)


def group_names(display: str) -> Iterator[str]:
    """Yield the names that a group with this display name may have, best first.

    One that is taken, or nothing of which is ASCII, gets a suffix that depends on it alone.
    """
    name = _OTHER.sub("-", _latin(display)).strip("-._")[:_LONGEST_GROUP]
    if name:
        yield name
    digest = sha256(fold(display).encode()).hexdigest()
    for length in (8, 16):
        yield f"{name[: _LONGEST_GROUP - length - 1] or 'group'}-{digest[:length]}"


def username_of(user_name: str) -> str:
    """Return the username that a `userName` suggests: what precedes the @, in ASCII if it is Latin.

    "" if nothing of it is left.
    """
    local = _UNUSABLE.sub("", without_tombstone(user_name).partition("@")[0])
    plain = _latin(local)
    is_latin = all(letter.isascii() or not letter.isalnum() for letter in plain)
    kept = _OTHER.sub("", plain) if is_latin else unicodedata.normalize("NFC", local)
    return kept[:_LONGEST_USERNAME]


def without_tombstone(address: str) -> str:
    """Return the address before its user was deleted: Entra ID puts 32 digits in front of it."""
    return _TOMBSTONE.sub("", address, count=1)


def is_tombstone(address: str) -> bool:
    """Return whether the address is that of a deleted user."""
    return _TOMBSTONE.match(address) is not None


def _latin(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))
