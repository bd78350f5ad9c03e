"""Apply each kind of object of the file: brand, clients, groups, roles at APIs, and users.

Members and roles are only added: only pruning takes them away.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.admin.server import (
    change_brand,
    current_brand,
    logo_path,
    uploaded_logo,
)
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
from valetkey.authorization.operations.server import LARGEST_LOGO
from valetkey.authorization.operations.server_records import BrandChange
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
from valetkey.cli.applying.file import LOGO_KEYS
from valetkey.cli.register.clients import COSTS
from valetkey.cli.register.store import OpenedStore, every_client, fresh_client_secret
from valetkey.config.agreement import Problem
from valetkey.config.sections.people import BrandField
from valetkey.fetch.image import UnusableImage, banner
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret, fresh_id, same
from valetkey.kernel.url import canonical

_OTHERS_LIVE = days(1)
"""How long a secret that the file replaced remains valid."""


class WantedClient(Struct, frozen=True):
    """A client of the file, with a fresh id and secret to use if it needs them."""

    entry: DeclaredEntry
    fresh_id: str
    fresh_secret: Secret


def prepared_client(opened: OpenedStore, entry: DeclaredEntry) -> WantedClient:
    """Generate the random values for a client, outside any transaction."""
    fresh = fresh_id("client", opened.runtime.random)
    return WantedClient(entry, fresh, fresh_client_secret(opened))


def apply_client(tx: Transaction, keeper: Registrar, client: WantedClient, now: Instant) -> Step:
    """Register or change the client. Raises InvalidEntry if the rules do not allow it."""
    there = find_client(tx, client.entry)
    if there is None:
        return _register(tx, keeper, client, now)
    return _change(tx, keeper, client, there, now)


def find_client(tx: Transaction, entry: DeclaredEntry) -> Client | None:
    """Return the client with the id that the file gives, else with its name, or None.

    Raises InvalidEntry if several clients have the name.
    """
    if client_id := entry.text("client_id"):
        return tx.clients.find(client_id) if client_id.isprintable() else None
    same = [client for client in every_client(tx) if client.name == entry.text("name")]
    if len(same) > 1:
        ids = ", ".join(client.id for client in same)
        problem = Problem(
            entry.path, f"{len(same)} clients have this name", f"write one of {ids} as client_id"
        )
        raise InvalidEntry([problem])
    return same[0] if same else None


def _register(tx: Transaction, keeper: Registrar, client: WantedClient, now: Instant) -> Step:
    entry = client.entry
    metadata = client_metadata(ClientMetadata(name=""), entry)
    needs = is_by_secret(metadata.proof)
    made_secret = client.fresh_secret if needs and entry.secret is None else None
    made = keeper.register(
        tx,
        metadata,
        now,
        client_id=entry.text("client_id") or client.fresh_id,
        secret=entry.secret or made_secret,
    )
    if isinstance(made, tuple):
        raise invalid_entry(entry, made)
    if entry.values.get("disabled"):
        keeper.disable(tx, made, now)
    costs = _costs(made.grant_types)
    owned = Declared(AppliedKind.CLIENT, made.id, is_new=True)
    return Step(
        Action.CREATE, "client", made.id, secret=made_secret, costs=costs, declares=(owned,)
    )


def _change(
    tx: Transaction, keeper: Registrar, client: WantedClient, there: Client, now: Instant
) -> Step:
    entry = client.entry
    changed = keeper.change(tx, there, client_metadata(metadata_of(there), entry), now)
    faults = secret_faults(entry.secret)
    if isinstance(changed, tuple):
        raise invalid_entry(entry, (*changed, *faults))
    if faults:
        raise invalid_entry(entry, faults)
    names = list(changed_fields(there, changed))
    made_secret = None
    if (secret := entry.secret) is None and _needs_secret(changed, now):
        secret = made_secret = client.fresh_secret
    if secret is not None and not _has(keeper, changed, secret, now):
        # The secret in the file must become valid, even if that replaces the oldest.
        if faults := keeper.issue_secret(
            tx, changed, secret, now, others_live=_OTHERS_LIVE, replaces_oldest=True
        ):
            raise invalid_entry(entry, faults)
        names.append("client_secret (others end in a day)")
    if "disabled" in entry.values:
        switch = keeper.disable if entry.values["disabled"] else keeper.enable
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.CLIENT, changed.id)
    step = changed_or_kept("client", changed.id, names, owned)
    costs = _costs(changed.grant_types - there.grant_types)
    return replace(step, secret=made_secret, costs=costs)


def _costs(grant_types: frozenset[str]) -> tuple[str, ...]:
    return tuple(cost for grant_type, cost in COSTS.items() if grant_type in grant_types)


def client_metadata(before: ClientMetadata, entry: DeclaredEntry) -> ClientMetadata:
    """Return `before` with the changes of the file."""
    values = {name: value for name, value in entry.values.items() if name in FIELDS}
    return with_values(before, values)


def _needs_secret(client: Client, now: Instant) -> bool:
    # A secret stored only as a fingerprint cannot sign.
    useful = (s for s in client.secrets if s.sealed or not client.signs_with_secret)
    return client.has_secret and not any(secret.is_live(now) for secret in useful)


def _has(keeper: Registrar, client: Client, secret: Secret, now: Instant) -> bool:
    print_ = keeper.fingerprints.fingerprint(secret_purpose(client.id), secret.reveal())
    # Fingerprints are not secret to a process that holds their key.
    return any(same(live_secret.fingerprint, print_) for live_secret in client.live_secrets(now))


def apply_group(tx: Transaction, entry: DeclaredEntry, fresh_id: str, now: Instant) -> Step:
    """Create or change the group, and add members. Raises InvalidEntry if a rule forbids it."""
    name, fields = entry.text("name"), GroupWanted.__struct_fields__
    values = {field: entry.text(field) for field in fields}
    try:
        declared = msgspec.convert(values, GroupWanted)
    except msgspec.ValidationError as error:
        raise invalid_entry(entry, faults_of(error, values, GroupWanted)) from None
    there = _there(tx, entry)
    if there is None:
        group = Group(id=fresh_id, created_at=now, **asdict(declared))
        made = groups.create(tx, group, now)
    else:
        chosen = {field: getattr(declared, field) for field in fields if field in entry.values}
        made = groups.change(tx, there, replace(there, **chosen), now, channel="cli")
    if not isinstance(made, Group):
        raise invalid_entry(entry, made)
    members = _users(tx, entry, "members")
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


def _there(tx: Transaction, entry: DeclaredEntry) -> Group | None:
    """Return the group of this name, or of its previous name; None if there is neither."""
    name, earlier = entry.text("name"), entry.text("renamed_from")
    there = tx.groups.find_to_change(name)
    before = tx.groups.find_to_change(earlier) if earlier else None
    if there is not None and before is not None:
        right = f"a group that does not exist; both {earlier} and {name} do"
        raise invalid_entry(entry, [MetadataError("renamed_from", right)])
    return there or before


def assign_roles(tx: Transaction, entry: DeclaredEntry, now: Instant) -> Step:
    """Assign the role to users and groups. Raises InvalidEntry for those that do not exist."""
    api, role = _api(tx, entry), entry.text("role")
    assignments = {
        role_part(role, user.uid): assign(tx, user, api, role, now)
        for user in _users(tx, entry, "users")
    }
    for name in cast("Sequence[str]", entry.values.get("groups", ())):
        group = tx.groups.find_to_change(name)
        if group is None:
            raise invalid_entry(
                entry, [MetadataError("groups", f"groups; there is no {name[:80]!a}")]
            )
        assignments[role_part(role, group.id)] = assign_group(tx, group, api, role, now)
    added = sum(assignments.values())
    owned = (
        Declared(AppliedKind.ROLE, api.id, part, is_new=is_new)
        for part, is_new in assignments.items()
    )
    shown = [f"{added} added"] if added else []
    return changed_or_kept("role", f"{role} at {api.identifier}", shown, *owned)


def _api(tx: Transaction, entry: DeclaredEntry) -> Api:
    api = tx.apis.find_by_key(canonical(entry.text("api")))
    if api is None:
        raise invalid_entry(entry, [MetadataError("api", "the identifier of a declared API")])
    if entry.text("role") not in api.roles:
        roles = ", ".join(api.roles) or "none"
        raise invalid_entry(
            entry, [MetadataError("role", f"a role that the API declares: {roles}")]
        )
    return api


def _users(tx: Transaction, entry: DeclaredEntry, key: str) -> Sequence[User]:
    """Return the users that the file names, locked in the order of their uids."""
    users: dict[int, User] = {}
    for name in cast("Sequence[str]", entry.values.get(key, ())):
        user = tx.users.find_by_username(name)
        if user is None:
            raise invalid_entry(
                entry, [MetadataError(key, f"usernames; there is no {name[:80]!a}")]
            )
        users[user.uid] = user
    held = [tx.users.find_to_change(user.uid) for _, user in sorted(users.items())]
    return [user for user in held if user is not None]


class WantedBrand(Struct, frozen=True):
    """The brand of the file, with the encoded copies of its logos."""

    entry: DeclaredEntry
    logos: Mapping[BrandField, bytes]


async def prepared_brand(opened: OpenedStore, folder: Path, entry: DeclaredEntry) -> WantedBrand:
    """Read and encode the logos, outside any transaction. Raises InvalidEntry for unusable ones.

    A path is relative to `folder`, that of the file.
    """
    logos: dict[BrandField, bytes] = {}
    for key, field in LOGO_KEYS.items():
        if key not in entry.values:
            continue
        try:
            if field.value in entry.values:
                raise _InvalidLogo(f"write {key} or {field.value}")
            content = _image(folder, entry.text(key))
            # An image that this server exported is kept as it is: each encoding loses a little.
            is_stored = await opened.store.read(partial(_is_stored, content))
            logos[field] = content if is_stored else banner(content)
        except (_InvalidLogo, UnusableImage) as error:
            right = str(error) if isinstance(error, _InvalidLogo) else _LOGO
            problem = Problem(f"{entry.path}.{key}", "it is not accepted", right)
            raise InvalidEntry([problem]) from None
    return WantedBrand(entry, logos)


def _is_stored(image: bytes, tx: Transaction) -> bool:
    return uploaded_logo(tx, logo_path(image)) is not None


class _InvalidLogo(Exception):
    """A logo cannot be read; says what to write."""


_LOGO = "a PNG, JPEG, WebP or GIF image of at most 2 MiB and 4 million pixels"


def _image(folder: Path, text: str) -> bytes:
    if text.startswith("data:"):
        _, separator, encoded = text.partition(";base64,")
        try:
            content = b64decode(encoded, validate=True)
        except ValueError:
            content = b""
        if not separator or not content:
            raise _InvalidLogo("a data URL in Base64, as valetkey export writes it, or a path")
    else:
        try:
            with (folder / text).open("rb") as opened:
                content = opened.read(LARGEST_LOGO + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no such path"
            raise _InvalidLogo(f"the path of an image, relative to the file; {reason}") from None
    if len(content) > LARGEST_LOGO:
        raise _InvalidLogo(_LOGO)
    return content


def apply_brand(tx: Transaction, opened: OpenedStore, brand: WantedBrand, now: Instant) -> Step:
    """Change the parts of the brand that the file has. Raises InvalidEntry for invalid values."""
    entry, settings = brand.entry, opened.settings.brand
    texts = {
        field.value: entry.text(field).strip() for field in BrandField if field in entry.values
    }
    try:
        msgspec.convert(texts, BrandChange)
    except msgspec.ValidationError as error:
        raise invalid_entry(entry, faults_of(error, texts, BrandChange)) from None
    before, changed_before = current_brand(tx, settings), tx.brand.all()
    # What is so already is not written again.
    values = {BrandField(name): value for name, value in texts.items()}
    changes = {field: value for field, value in values.items() if value != before[field]}
    logos = {
        field: image for field, image in brand.logos.items() if logo_path(image) != before[field]
    }
    after = before
    if changes or logos:
        changed = change_brand(tx, opened.operator, settings, changes, now, logos)
        if isinstance(changed, tuple):
            raise invalid_entry(entry, changed)
        after = changed
    changed_after = tx.brand.all()
    owned = (
        Declared(AppliedKind.BRAND, field.value, is_new=field not in changed_before)
        for field in BrandField
        if (field in values or field in brand.logos) and field in changed_after
    )
    fields = [field.value for field in BrandField if before[field] != after[field]]
    return changed_or_kept("brand", after[BrandField.NAME], fields, *owned)


class WantedUser(Struct, frozen=True):
    """A user of the file, with the hash of the password if the file has a different one."""

    entry: DeclaredEntry
    uid: int
    """The uid in the file, otherwise a generated one in case the user does not exist."""
    password_hash: str | None


def find_user(tx: Transaction, entry: DeclaredEntry) -> User | None:
    """Return the user with the uid in the file, otherwise with its username, or None."""
    uid = cast("int | None", entry.values.get("uid"))
    if uid is not None:
        return tx.users.find(Uid(uid)) if 0 < uid <= LARGEST_UID else None
    return tx.users.find_by_username(entry.text("username"))


def prepared_user(opened: OpenedStore, entry: DeclaredEntry, stored: str | None) -> WantedUser:
    """Hash the user's new password, outside any transaction. Raises InvalidEntry for a bad one.

    Checking or hashing a password takes tens of milliseconds.
    """
    uid = cast("int", entry.values.get("uid", fresh_uid(opened.runtime.random)))
    if entry.secret is None:
        return WantedUser(entry, uid, None)
    text, settings = entry.secret.reveal(), opened.settings.passwords
    if problem := password_problem(text):
        raise InvalidEntry(
            [Problem(f"{entry.path}.password", "it is not accepted", f"it {problem}")]
        )
    if stored is not None and verify(text, stored, settings):
        return WantedUser(entry, uid, None)
    return WantedUser(entry, uid, hash_password(text, settings, opened.runtime.random))


def apply_user(tx: Transaction, keeper: Accounts, user: WantedUser, now: Instant) -> Step:
    """Create or change the account. Raises InvalidEntry if the rules do not allow it."""
    entry, values = user.entry, user.entry.values
    there = find_user(tx, entry)
    record = UserRecord(
        username=entry.text("username"),
        email=str(values.get("email", there.email if there else "")),
        name=str(values.get("name", there.name if there else "")),
        email_verified=bool(
            values.get("email_verified", there is None or there.email_verified_at is not None)
        ),
        claims=_claims(entry, StandardClaims.NOTHING if there is None else there.claims),
    )
    if there is None:
        made = keeper.register(tx, record, now, uid=user.uid, password_hash=user.password_hash)
        if isinstance(made, tuple):
            raise invalid_entry(entry, made)
        made, _ = _with_attributes(tx, made, entry, now)
        if values.get("disabled"):
            keeper.disable(tx, made, now)
        owned = Declared(AppliedKind.USER, str(made.uid), is_new=True)
        costs = _missing(user, made)
        return Step(Action.CREATE, "user", made.username, costs=costs, declares=(owned,))
    changed = keeper.change(tx, there, record, now)
    if isinstance(changed, tuple):
        raise invalid_entry(entry, changed)
    names = list(changed_names(there, changed))
    changed, attributes = _with_attributes(tx, changed, entry, now)
    names += attributes
    if user.password_hash is not None:
        keeper.set_password(tx, changed, user.password_hash, now)
        names.append("password (signs out everywhere)")
    if "disabled" in values:
        switch = keeper.disable if values["disabled"] else keeper.enable
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.USER, str(changed.uid))
    return changed_or_kept("user", changed.username, names, owned)


def _with_attributes(
    tx: Transaction, user: User, entry: DeclaredEntry, now: Instant
) -> tuple[User, Sequence[str]]:
    """Return the user with the attributes in the file, and the names of changed ones."""
    if "attributes" not in entry.values:
        return user, ()
    attributes = cast("Mapping[str, object]", entry.values["attributes"])
    changed = change_attributes(tx, user, attributes, now)
    if isinstance(changed, tuple):
        raise invalid_entry(entry, changed)
    before, after = user.attributes.values, changed.attributes.values
    return changed, [f"attributes.{name}" for name in attributes if before.get(name) != after[name]]


def _missing(user: WantedUser, made: User) -> tuple[str, ...]:
    if user.password_hash is not None:
        return ()
    return (f"cannot sign in without a password; next: valetkey user password {made.username}",)


def _claims(entry: DeclaredEntry, before: StandardClaims) -> StandardClaims:
    """Return the claims of the file; claims that it does not name are kept."""
    after = changed_claims(before, {**entry.values, "address": {}})
    if "address" not in entry.values:
        return after
    return replace(after, address=Address(**cast("Mapping[str, str]", entry.values["address"])))
