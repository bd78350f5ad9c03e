"""Apply one user of the file."""

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions.attributes import change_attributes
from valetkey.authorization.actions.user_input import changed_claims
from valetkey.authorization.actions.users import Accounts, UserRecord, changed_names, fresh_uid
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    InvalidEntry,
    Step,
    changed_or_kept,
    invalid_entry,
)
from valetkey.authorization.authentication.password import (
    hash_password,
    password_problem,
    verify,
)
from valetkey.authorization.model.account.user import (
    LARGEST_UID,
    Address,
    StandardClaims,
    Uid,
    User,
)
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.register.store import OpenedStore
from valetkey.config.agreement import Problem
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


class WantedUser(Struct, frozen=True):
    """A user of the file, with the hash of the password if the file has a different one."""

    wanted: DeclaredEntry
    uid: int
    """The uid in the file, otherwise a generated one in case the user does not exist."""
    password_hash: str | None


def find(tx: Transaction, wanted: DeclaredEntry) -> User | None:
    """Return the user with the uid in the file, otherwise with its username, or None."""
    uid = cast("int | None", wanted.given.get("uid"))
    if uid is not None:
        return tx.users.find(Uid(uid)) if 0 < uid <= LARGEST_UID else None
    return tx.users.find_by_username(wanted.text("username"))


def prepared(opened: OpenedStore, wanted: DeclaredEntry, stored: str | None) -> WantedUser:
    """Hash the user's new password, outside any transaction. Raises InvalidEntry for a bad one.

    Checking or hashing a password takes tens of milliseconds.
    """
    uid = cast("int", wanted.given.get("uid", fresh_uid(opened.runtime.random)))
    if wanted.secret is None:
        return WantedUser(wanted, uid, None)
    text, settings = wanted.secret.reveal(), opened.settings.passwords
    if problem := password_problem(text):
        raise InvalidEntry(
            [Problem(f"{wanted.place}.password", "it is not accepted", f"it {problem}")]
        )
    if stored is not None and verify(text, stored, settings):
        return WantedUser(wanted, uid, None)
    return WantedUser(wanted, uid, hash_password(text, settings, opened.runtime.random))


def apply_user(tx: Transaction, keeper: Accounts, user: WantedUser, now: Instant) -> Step:
    """Create or change the account. Raises InvalidEntry if the rules do not allow it."""
    wanted, given = user.wanted, user.wanted.given
    there = find(tx, wanted)
    record = UserRecord(
        username=wanted.text("username"),
        email=str(given.get("email", there.email if there else "")),
        name=str(given.get("name", there.name if there else "")),
        email_verified=bool(
            given.get("email_verified", there is None or there.email_verified_at is not None)
        ),
        claims=_claims(wanted, StandardClaims.NOTHING if there is None else there.claims),
    )
    if there is None:
        made = keeper.register(tx, record, now, uid=user.uid, password_hash=user.password_hash)
        if isinstance(made, tuple):
            raise invalid_entry(wanted, made)
        made, _ = _with_attributes(tx, made, wanted, now)
        if given.get("disabled"):
            keeper.disable(tx, made, now)
        owned = Declared(AppliedKind.USER, str(made.uid), is_new=True)
        costs = _missing(user, made)
        return Step(Action.CREATE, "user", made.username, costs=costs, declares=(owned,))
    changed = keeper.change(tx, there, record, now)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    names = list(changed_names(there, changed))
    changed, attributes = _with_attributes(tx, changed, wanted, now)
    names += attributes
    if user.password_hash is not None:
        keeper.set_password(tx, changed, user.password_hash, now)
        names.append("password (signs out everywhere)")
    if "disabled" in given:
        switch = keeper.disable if given["disabled"] else keeper.enable
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.USER, str(changed.uid))
    return changed_or_kept("user", changed.username, names, owned)


def _with_attributes(
    tx: Transaction, user: User, wanted: DeclaredEntry, now: Instant
) -> tuple[User, Sequence[str]]:
    """Return the user with the attributes in the file, and the names of changed ones."""
    if "attributes" not in wanted.given:
        return user, ()
    given = cast("Mapping[str, object]", wanted.given["attributes"])
    changed = change_attributes(tx, user, given, now)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    before, after = user.attributes.values, changed.attributes.values
    return changed, [f"attributes.{name}" for name in given if before.get(name) != after[name]]


def _missing(user: WantedUser, made: User) -> tuple[str, ...]:
    if user.password_hash is not None:
        return ()
    return (f"cannot sign in without a password; next: valetkey user password {made.username}",)


def _claims(wanted: DeclaredEntry, before: StandardClaims) -> StandardClaims:
    """Return the claims of the file; claims that it does not name are kept."""
    after = changed_claims(before, {**wanted.given, "address": {}})
    if "address" not in wanted.given:
        return after
    return replace(after, address=Address(**cast("Mapping[str, str]", wanted.given["address"])))
