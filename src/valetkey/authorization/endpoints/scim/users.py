"""Users as SCIM resources: the part of an account that a directory reads and writes."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.roles import user_to_change
from valetkey.authorization.actions.admin.search import uid_of
from valetkey.authorization.actions.attributes import change_attributes
from valetkey.authorization.actions.users import Faults, UserRecord
from valetkey.authorization.endpoints.scim.filter import Compare, Filter, matches
from valetkey.authorization.endpoints.scim.message import Caller, ScimRequest, View, with_meta
from valetkey.authorization.endpoints.scim.patch import apply, read_changes
from valetkey.authorization.endpoints.scim.schema import (
    EXTENSION,
    LONGEST_NAME,
    Resource,
    Schema,
    conflict,
    refuse,
    short_text,
)
from valetkey.authorization.model.account.scim import ScimUser
from valetkey.authorization.model.account.user import Address, StandardClaims, User
from valetkey.authorization.storage.administration.scim import ScimUsers
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

_PHONE_SIGNS = re.compile(r"^tel:|[ ()./-]")
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
_ATTRIBUTES = {
    "username": "userName",
    "email": "emails",
    "name": "displayName",
    "phone_number": "phoneNumbers",
    **{ours: name for name, ours in _CLAIMS.items()},
    **{ours: f"name.{name}" for name, ours in _NAMES.items()},
    **{f"address/{ours}": f"addresses.{name}" for name, ours in _ADDRESS.items()},
}


class Users(Struct, frozen=True):
    """Users as SCIM resources. Its methods run inside a transaction."""

    schema: Schema
    plural: str = "Users"
    indexed: frozenset[str] = frozenset({"id", "userName", "externalId", "emails.value"})

    def one(self, tx: Transaction, caller: Caller, id: str, view: View) -> Resource | None:
        """Return the user with this id."""
        uid = uid_of(id)
        found = None if uid is None else _rows(tx, caller).find(uid)
        return None if found is None else self._shown(tx, caller, found, view)

    def some(
        self, tx: Transaction, caller: Caller, view: View, ids: Sequence[str]
    ) -> Sequence[Resource]:
        """Return those of these users that exist."""
        found = [self.one(tx, caller, each, view) for each in ids]
        return [each for each in found if each is not None]

    def page(
        self, tx: Transaction, caller: Caller, view: View, offset: int, limit: int, *, back: bool
    ) -> Sequence[Resource]:
        """Return some users by uid."""
        rows = _rows(tx, caller)
        found = rows.page(offset, limit, back=back)
        return [self._shown(tx, caller, each, view) for each in found]

    def count(self, tx: Transaction, caller: Caller) -> int:
        """Count the users."""
        return _rows(tx, caller).count()

    def candidates(self, tx: Transaction, caller: Caller, wanted: Compare) -> Sequence[str]:
        """Return the ids that an index has for an equality."""
        rows, text = _rows(tx, caller), str(wanted.value)
        if wanted.name == "id":
            return [text]
        if wanted.name == "externalId":
            found = [rows.external(text)]
        elif wanted.name == "userName":
            user = tx.users.find_by_name(text)
            found = [rows.named(text), user.uid if user else None]
        else:
            user = tx.users.find_by_email(text)
            found = [user.uid if user else None]
        return [str(uid) for uid in found if uid is not None]

    def fits(self, tx: Transaction, caller: Caller, resource: Resource, wanted: Filter) -> bool:
        """Return whether a filter holds. An account is found by its email as its `userName` too.

        A directory whose user names are email addresses thus finds accounts that it did not create.
        """
        del tx, caller
        emails = cast("list[Resource]", resource.get("emails", []))
        names = [resource["userName"], *(each["value"] for each in emails)]
        return matches(wanted, {**resource, "userName": names})

    def create(self, tx: Transaction, asked: ScimRequest) -> str:
        """Create the user; return the id. Raises Refused."""
        caller = asked.caller
        require(tx, caller.actor, Permission.USERS)
        wanted = self.schema.read(asked.body)
        user_name = short_text(wanted, "userName", required=True)
        if _rows(tx, caller).named(user_name) is not None:
            conflict("another user has this userName")
        email = _email(wanted) or (user_name if "@" in user_name else "")
        if tx.users.find_by_email(email) is not None:
            conflict("another user has this email address")
        username = _free_username(tx, caller, user_name)
        record = _record(wanted, asked.body, username, email, StandardClaims.NOTHING)
        user = _made(caller.services.accounts.register(tx, record, caller.now))
        # Before rows are changed, as decision 0015 orders locks.
        tx.users.hold_alone(user.uid)
        self._name(tx, caller, user, wanted)
        user = self._extend(tx, caller, user, wanted)
        if wanted.get("active") is False:
            caller.services.accounts.disable(tx, user, caller.now, caller.actor.credential_id)
        return str(user.uid)

    def replace(self, tx: Transaction, asked: ScimRequest, id: str) -> None:
        """Replace the user (section 3.5.1). Raises Refused."""
        user = self._held(tx, asked, id)
        self._save(tx, asked.caller, user, self.schema.read(asked.body), asked.body)

    def patch(self, tx: Transaction, asked: ScimRequest, id: str) -> None:
        """Apply a PATCH request (section 3.5.2). Raises Refused."""
        changes = read_changes(asked.body, self.schema)
        found = self._held(tx, asked, id)
        before = self._described(found)
        after = apply(before, changes)
        if after != before:
            self._save(tx, asked.caller, found, after, None)

    def delete(self, tx: Transaction, asked: ScimRequest, id: str) -> None:
        """Delete the account, as the console does. Raises Refused."""
        user = self._held(tx, asked, id).user
        asked.caller.services.removal.remove(tx, user, asked.caller.now)

    def _held(self, tx: Transaction, asked: ScimRequest, id: str) -> ScimUser:
        """Return the user, locked until the commit, whom the caller may change."""
        caller = asked.caller
        uid = uid_of(id)
        if uid is None:
            raise not_found()
        # First: the credential is locked before any user.
        require(tx, caller.actor, Permission.USERS)
        user = user_to_change(tx, uid, caller.actor)
        require(tx, caller.actor, Permission.USERS, user)
        found = _rows(tx, caller).find(uid)
        if found is None:
            raise not_found()
        meta = cast("Resource", self._shown(tx, caller, found, View())["meta"])
        asked.preconditions.check(str(meta["version"]))
        return found

    def _save(
        self, tx: Transaction, caller: Caller, found: ScimUser, wanted: Resource, body: object
    ) -> None:
        accounts, user = caller.services.accounts, found.user
        user_name = short_text(wanted, "userName", required=True)
        # A username that was changed here stays until the directory changes its own name.
        stays = "@" in user_name or user_name == found.user_name
        username = user.username if stays else user_name
        email = _email(wanted) or user.email
        record = _record(wanted, body, username, email, user.claims)
        verified = user.email_verified_at is not None and email == user.email
        changed = _made(
            accounts.change(tx, user, replace(record, email_verified=verified), caller.now)
        )
        self._name(tx, caller, changed, wanted)
        if body is None or EXTENSION in wanted:
            changed = self._extend(tx, caller, changed, wanted)
        if wanted.get("active") is False:
            accounts.disable(tx, changed, caller.now, caller.actor.credential_id)
        elif wanted.get("active") is True:
            # An account that an administrator disabled stays so; the response says it.
            accounts.enable(tx, changed, caller.now, caller.actor.credential_id)

    def _extend(self, tx: Transaction, caller: Caller, user: User, wanted: Resource) -> User:
        said = cast("Resource", wanted.get(EXTENSION, {}))
        names = [each.name for each in self.schema.extensions.get(EXTENSION, ())]
        values = {name: said.get(name) for name in names}
        return _made(change_attributes(tx, user, values, caller.now)) if names else user

    def _name(self, tx: Transaction, caller: Caller, user: User, wanted: Resource) -> None:
        external = short_text(wanted, "externalId")
        name = short_text(wanted, "userName", required=True)
        if not _rows(tx, caller).name(user.uid, name, external):
            conflict("another user has this userName or externalId")

    def _shown(self, tx: Transaction, caller: Caller, found: ScimUser, view: View) -> Resource:
        user = found.user
        resource = {"schemas": [self.schema.urn], "id": str(user.uid), **self._described(found)}
        if view.shows("groups", asked=True):
            resource["groups"] = [
                {
                    "value": each.id,
                    "$ref": f"{caller.base}/Groups/{each.id}",
                    "display": each.name,
                }
                for each in tx.groups.direct(user.uid)
            ]
        location = f"{caller.base}/Users/{user.uid}"
        return with_meta(resource, "User", location, user.created_at, user.changed_at)

    def _described(self, found: ScimUser) -> Resource:
        """Return the attributes of a user that a directory may write."""
        names = [each.name for each in self.schema.extensions.get(EXTENSION, ())]
        values = found.user.attributes.values
        extended = {name: values[name] for name in names if name in values}
        return {**_described(found), **({EXTENSION: extended} if extended else {})}


def not_found() -> Refused:
    """Return the refusal of an unknown resource."""
    return Refused.because(ErrorCode.NOT_FOUND, "this resource does not exist", "scim.resource")


def _rows(tx: Transaction, caller: Caller) -> ScimUsers:
    return tx.scim_users(caller.actor.credential_id)


def _described(found: ScimUser) -> Resource:
    user, claims = found.user, found.user.claims
    said: Resource = {
        "userName": found.user_name or user.username,
        "externalId": found.external_id,
        "name": _kept({name: getattr(claims, ours) for name, ours in _NAMES.items()}),
        "displayName": user.name,
        **{name: getattr(claims, ours) for name, ours in _CLAIMS.items()},
    }
    address = _kept({name: getattr(claims.address, ours) for name, ours in _ADDRESS.items()})
    if user.email:
        said["emails"] = [{"value": user.email, "type": "work", "primary": True}]
    if claims.phone_number:
        said["phoneNumbers"] = [{"value": claims.phone_number, "type": "work", "primary": True}]
    if address:
        said["addresses"] = [{**address, "type": "work", "primary": True}]
    return {**_kept(said), "active": user.disabled_at is None}


def _kept(said: Mapping[str, object]) -> Resource:
    return {name: value for name, value in said.items() if value}


def _record(
    wanted: Resource, body: object, username: str, email: str, before: StandardClaims
) -> UserRecord:
    name = cast("Resource", wanted.get("name", {}))
    full = str(wanted.get("displayName", "")) or _formatted(body)
    phone = _PHONE_SIGNS.sub("", str(_main(wanted, "phoneNumbers").get("value", "")))
    address = _main(wanted, "addresses")
    claims = replace(
        before,
        **{ours: str(wanted.get(each, "")) for each, ours in _CLAIMS.items()},
        **{ours: str(name.get(each, "")) for each, ours in _NAMES.items()},
        phone_number=phone,
        phone_number_verified=before.phone_number_verified and phone == before.phone_number,
        address=Address(**{ours: str(address.get(each, "")) for each, ours in _ADDRESS.items()}),
    )
    return UserRecord(username, email, full, claims=claims)


def _formatted(body: object) -> str:
    """Return `name.formatted`, which directories send as the full name in addition to its parts."""
    name = cast("Resource", body).get("name") if isinstance(body, dict) else None
    full = cast("Resource", name).get("formatted") if isinstance(name, dict) else None
    return full if isinstance(full, str) else ""


def _main(wanted: Resource, name: str) -> Resource:
    """Return the value that is stored: the primary one, otherwise the first."""
    values = cast("list[Resource]", wanted.get(name) or [{}])
    return next((each for each in values if each.get("primary") is True), values[0])


def _email(wanted: Resource) -> str:
    return str(_main(wanted, "emails").get("value", ""))


def _free_username(tx: Transaction, caller: Caller, user_name: str) -> str:
    """Return the username of a new account: a `userName` without @, or its part before the @.

    Usernames contain no @, so that none looks like another user's email address.
    """
    if "@" not in user_name:
        if tx.users.find_by_username(user_name) is not None:
            conflict("another user has this userName")
        return user_name
    accounts = caller.services.accounts
    local = re.sub(r"[^A-Za-z0-9._-]", "", user_name.partition("@")[0])[: LONGEST_NAME - 10]
    for username in (local, f"{local or 'u'}-{accounts.random(4).hex()}"):
        is_free = username and tx.users.find_by_username(username) is None
        if is_free and not accounts.name_faults(username):
            return username
    return conflict("no username is free for this userName")


def _made(made: User | Faults) -> User:
    if isinstance(made, User):
        return made
    if "taken" in made[0].detail:
        conflict("another user has this userName or email address")
    said = "; ".join(f"{_ATTRIBUTES.get(each.field, each.field)}: {each.detail}" for each in made)
    return refuse("invalidValue", said)
