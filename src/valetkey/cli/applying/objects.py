"""Apply each kind of object of the file: clients, groups, roles at APIs, and users.

Members and roles are only added: only pruning takes them away.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.attributes import change_attributes
from valetkey.authorization.actions.clients import (
    Registrar,
    changed_fields,
    metadata_of,
    secret_faults,
)
from valetkey.authorization.actions.groups import assign, assign_group
from valetkey.authorization.actions.users import (
    Accounts,
    UserRecord,
    changed_claims,
    changed_names,
    fresh_uid,
)
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    InvalidEntry,
    Step,
    changed_or_kept,
    invalid_entry,
)
from valetkey.authorization.authentication.password import hash_password, password_problem, verify
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import Client, is_by_secret
from valetkey.authorization.model.user import LARGEST_UID, Address, Group, StandardClaims, Uid, User
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    with_values,
)
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.storage.administration import AppliedKind, member_part, role_part
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.register.clients import COSTS
from valetkey.cli.register.store import OpenedStore, every_client, fresh_client_secret
from valetkey.config.agreement import Problem
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret, fresh_id, same
from valetkey.kernel.url import canonical

_OTHERS_LIVE = days(1)
"""How long a secret that the file replaced remains valid."""


class WantedClient(Struct, frozen=True):
    """A client of the file, with a fresh id and secret to use if it needs them."""

    wanted: DeclaredEntry
    fresh_id: str
    fresh_secret: Secret


def prepared_client(opened: OpenedStore, wanted: DeclaredEntry) -> WantedClient:
    """Generate the random values for a client, outside any transaction."""
    fresh = fresh_id("client", opened.runtime.random)
    return WantedClient(wanted, fresh, fresh_client_secret(opened))


def apply_client(tx: Transaction, keeper: Registrar, client: WantedClient, now: Instant) -> Step:
    """Register or change the client. Raises InvalidEntry if the rules do not allow it."""
    there = find_client(tx, client.wanted)
    if there is None:
        return _register(tx, keeper, client, now)
    return _change(tx, keeper, client, there, now)


def find_client(tx: Transaction, wanted: DeclaredEntry) -> Client | None:
    """Return the client with the id that the file gives, else with its name, or None.

    Raises InvalidEntry if several clients have the name.
    """
    if client_id := wanted.text("client_id"):
        return tx.clients.find(client_id) if client_id.isprintable() else None
    same = [client for client in every_client(tx) if client.name == wanted.text("name")]
    if len(same) > 1:
        ids = ", ".join(client.id for client in same)
        problem = Problem(
            wanted.place, f"{len(same)} clients have this name", f"write one of {ids} as client_id"
        )
        raise InvalidEntry([problem])
    return same[0] if same else None


def _register(tx: Transaction, keeper: Registrar, client: WantedClient, now: Instant) -> Step:
    wanted = client.wanted
    metadata = client_metadata(ClientMetadata(name=""), wanted)
    needs = is_by_secret(metadata.proof)
    made_secret = client.fresh_secret if needs and wanted.secret is None else None
    made = keeper.register(
        tx,
        metadata,
        now,
        client_id=wanted.text("client_id") or client.fresh_id,
        secret=wanted.secret or made_secret,
    )
    if isinstance(made, tuple):
        raise invalid_entry(wanted, made)
    if wanted.given.get("disabled"):
        keeper.disable(tx, made, now)
    costs = _costs(made.grant_types)
    owned = Declared(AppliedKind.CLIENT, made.id, is_new=True)
    return Step(
        Action.CREATE, "client", made.id, secret=made_secret, costs=costs, declares=(owned,)
    )


def _change(
    tx: Transaction, keeper: Registrar, client: WantedClient, there: Client, now: Instant
) -> Step:
    wanted = client.wanted
    changed = keeper.change(tx, there, client_metadata(metadata_of(there), wanted), now)
    faults = secret_faults(wanted.secret)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, (*changed, *faults))
    if faults:
        raise invalid_entry(wanted, faults)
    names = list(changed_fields(there, changed))
    made_secret = None
    if (secret := wanted.secret) is None and _needs_secret(changed, now):
        secret = made_secret = client.fresh_secret
    if secret is not None and not _has(keeper, changed, secret, now):
        # The secret in the file must become valid, even if that replaces the oldest.
        if faults := keeper.issue_secret(
            tx, changed, secret, now, others_live=_OTHERS_LIVE, replaces_oldest=True
        ):
            raise invalid_entry(wanted, faults)
        names.append("client_secret (others end in a day)")
    if "disabled" in wanted.given:
        switch = keeper.disable if wanted.given["disabled"] else keeper.enable
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.CLIENT, changed.id)
    step = changed_or_kept("client", changed.id, names, owned)
    costs = _costs(changed.grant_types - there.grant_types)
    return replace(step, secret=made_secret, costs=costs)


def _costs(grant_types: frozenset[str]) -> tuple[str, ...]:
    return tuple(cost for grant_type, cost in COSTS.items() if grant_type in grant_types)


def client_metadata(before: ClientMetadata, wanted: DeclaredEntry) -> ClientMetadata:
    """Return `before` with the changes of the file."""
    said = {name: value for name, value in wanted.given.items() if name in FIELDS}
    return with_values(before, said)


def _needs_secret(client: Client, now: Instant) -> bool:
    # A secret stored only as a fingerprint cannot sign.
    useful = (s for s in client.secrets if s.sealed or not client.signs_with_secret)
    return client.has_secret and not any(secret.is_live(now) for secret in useful)


def _has(keeper: Registrar, client: Client, secret: Secret, now: Instant) -> bool:
    print_ = keeper.fingerprints.of(secret_purpose(client.id), secret.reveal())
    # Fingerprints are not secret to a process that holds their key.
    return any(same(each.fingerprint, print_) for each in client.live_secrets(now))


def apply_group(tx: Transaction, wanted: DeclaredEntry, fresh_id: str, now: Instant) -> Step:
    """Create or change the group, and add members. Raises InvalidEntry if a rule forbids it."""
    name, fields = wanted.text("name"), GroupWanted.__struct_fields__
    given = {field: wanted.text(field) for field in fields}
    try:
        declared = msgspec.convert(given, GroupWanted)
    except msgspec.ValidationError as error:
        raise invalid_entry(wanted, faults_of(error, given, GroupWanted)) from None
    there = _there(tx, wanted)
    if there is None:
        group = Group(id=fresh_id, created_at=now, **asdict(declared))
        made = groups.create(tx, group, now)
    else:
        chosen = {field: getattr(declared, field) for field in fields if field in wanted.given}
        made = groups.change(tx, there, replace(there, **chosen), now, channel="cli")
    if not isinstance(made, Group):
        raise invalid_entry(wanted, made)
    members = _users(tx, wanted, "members")
    joined = {user.uid: groups.add_member(tx, user, made, now) for user in members}
    owned = (
        Declared(AppliedKind.GROUP, made.id, is_new=there is None),
        *(
            Declared(AppliedKind.MEMBER, made.id, member_part(uid), is_new=is_new)
            for uid, is_new in joined.items()
        ),
    )
    if there is None:
        return Step(Action.CREATE, "group", name, declares=owned)
    changed = [field for field in fields if getattr(made, field) != getattr(there, field)]
    if added := sum(joined.values()):
        changed.append(f"members ({added} added)")
    return changed_or_kept("group", name, changed, *owned)


def _there(tx: Transaction, wanted: DeclaredEntry) -> Group | None:
    """Return the group of this name, or of its previous name; None if there is neither."""
    name, earlier = wanted.text("name"), wanted.text("renamed_from")
    there = tx.groups.find_to_change(name)
    before = tx.groups.find_to_change(earlier) if earlier else None
    if there is not None and before is not None:
        right = f"a group that does not exist; both {earlier} and {name} do"
        raise invalid_entry(wanted, [MetadataError("renamed_from", right)])
    return there or before


def assign_roles(tx: Transaction, wanted: DeclaredEntry, now: Instant) -> Step:
    """Assign the role to users and groups. Raises InvalidEntry for those that do not exist."""
    api, role = _api(tx, wanted), wanted.text("role")
    given = {
        role_part(role, user.uid): assign(tx, user, api, role, now)
        for user in _users(tx, wanted, "users")
    }
    for name in cast("Sequence[str]", wanted.given.get("groups", ())):
        group = tx.groups.find_to_change(name)
        if group is None:
            raise invalid_entry(
                wanted, [MetadataError("groups", f"groups; there is no {name[:80]!a}")]
            )
        given[role_part(role, group.id)] = assign_group(tx, group, api, role, now)
    added = sum(given.values())
    owned = (
        Declared(AppliedKind.ROLE, api.id, part, is_new=is_new) for part, is_new in given.items()
    )
    shown = [f"{added} added"] if added else []
    return changed_or_kept("role", f"{role} at {api.identifier}", shown, *owned)


def _api(tx: Transaction, wanted: DeclaredEntry) -> Api:
    api = tx.apis.find_by_key(canonical(wanted.text("api")))
    if api is None:
        raise invalid_entry(wanted, [MetadataError("api", "the identifier of a declared API")])
    if wanted.text("role") not in api.roles:
        known = ", ".join(api.roles) or "none"
        raise invalid_entry(
            wanted, [MetadataError("role", f"a role that the API declares: {known}")]
        )
    return api


def _users(tx: Transaction, wanted: DeclaredEntry, key: str) -> Sequence[User]:
    """Return the users that the file names, locked in the order of their uids."""
    found: dict[int, User] = {}
    for name in cast("Sequence[str]", wanted.given.get(key, ())):
        user = tx.users.find_by_username(name)
        if user is None:
            raise invalid_entry(
                wanted, [MetadataError(key, f"usernames; there is no {name[:80]!a}")]
            )
        found[user.uid] = user
    held = [tx.users.find_to_change(user.uid) for _, user in sorted(found.items())]
    return [user for user in held if user is not None]


class WantedUser(Struct, frozen=True):
    """A user of the file, with the hash of the password if the file has a different one."""

    wanted: DeclaredEntry
    uid: int
    """The uid in the file, otherwise a generated one in case the user does not exist."""
    password_hash: str | None


def find_user(tx: Transaction, wanted: DeclaredEntry) -> User | None:
    """Return the user with the uid in the file, otherwise with its username, or None."""
    uid = cast("int | None", wanted.given.get("uid"))
    if uid is not None:
        return tx.users.find(Uid(uid)) if 0 < uid <= LARGEST_UID else None
    return tx.users.find_by_username(wanted.text("username"))


def prepared_user(opened: OpenedStore, wanted: DeclaredEntry, stored: str | None) -> WantedUser:
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
    there = find_user(tx, wanted)
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
