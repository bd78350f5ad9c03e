"""Write the stored objects as a file of `valetkey apply` that, applied, changes nothing.

Secrets and passwords are not written. Apps that registered themselves are left out: they change
themselves.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from valetkey.authorization.actions.admin.server import LOGOS, uploaded_logo
from valetkey.authorization.actions.attributes import attributes_of
from valetkey.authorization.features import DECLARED_KINDS
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import RESOURCE_SERVER, Client, FieldType
from valetkey.authorization.model.user import Attribute, Group, StandardClaims, User
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.protocol.register.client_metadata import FIELDS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying.file import LOGO_KEYS
from valetkey.cli.register.clients import fields_shown
from valetkey.cli.register.store import every_api, every_client, every_group, every_user
from valetkey.config.sections.people import BrandField
from valetkey.fetch.image import MEDIA_TYPE
from valetkey.kernel.moment import Lifetime


def toml_of(value: object) -> str:
    """Return a value as TOML in one line. Raises ValueError for null, which TOML does not have."""
    if value is None:
        raise ValueError("null")
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        shown = ", ".join(f"{toml_of(key)} = {toml_of(inner)}" for key, inner in pairs)
        return f"{{ {shown} }}" if shown else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_of(item) for item in cast('list[object]', value))}]"
    # A JSON string, number or flag is spelt the same in TOML, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_table(kind: str, table: Mapping[str, object]) -> str:
    """Return an entry of the list `kind`."""
    return "\n".join([f"[[{kind}]]", *_lines(table), ""])


def _lines(table: Mapping[str, object]) -> Iterator[str]:
    return (f"{key} = {toml_of(value)}" for key, value in table.items())


def toml_tables(tables: Iterable[tuple[str, Mapping[str, object]]]) -> str:
    """Return entries of lists, each with the name of its list."""
    return "\n".join(toml_table(kind, table) for kind, table in tables)


_PAGE = 500
_MOST = 1_000_000

Table = Mapping[str, object]


def exported(tx: Transaction, name: str, *, users: bool) -> Iterator[str]:
    """Return the text in parts, each one object; with `users`, accounts and their groups."""
    yield f'name = "{name}"\n' if name else "# Give the file a name to prune what it owns.\n"
    if brand := _brand(tx):
        yield "\n".join(["[brand]", *_lines(brand), ""])
    for kind, table in _tables(tx, users=users):
        values = {key: value for key, value in table.items() if value not in (None, "")}
        try:
            yield toml_table(kind, values)
        except ValueError:
            # JSON that an operator declared by the admin API.
            title = str(values.get("name") or values.get("username")).encode("ascii", "replace")
            yield f"# Left out, because TOML has no null: {kind} {title.decode()}\n"


def _tables(tx: Transaction, *, users: bool) -> Iterator[tuple[str, Table]]:
    apis = every_api(tx)
    for kind in DECLARED_KINDS:
        if kind.before_users:
            yield from ((kind.table, table) for table in kind.exported(tx))
    if users:
        declared = tx.attributes()
        kept = (user for user in every_user(tx) if not tx.account_removals.is_done(user.uid))
        yield from (("users", _user(user, declared)) for user in kept)
    # A group must exist before those in it.
    groups = sorted(every_group(tx), key=lambda group: group.parent != "")
    yield from (("groups", _group(tx, group, users=users)) for group in groups)
    credentials = {RESOURCE_SERVER, *(api.id for api in apis)}
    clients = (client for client in every_client(tx) if client.id not in credentials)
    yield from (("clients", _client(client)) for client in clients if not client.self_registered)
    roles = (_role(tx, api, role, users=users) for api in apis for role in api.roles)
    yield from (("roles", table) for table in roles if table is not None)
    for kind in DECLARED_KINDS:
        if not kind.before_users:
            yield from ((kind.table, table) for table in kind.exported(tx))


def _brand(tx: Transaction) -> Mapping[str, str]:
    """Return what differs from the settings, with uploaded logos as data URLs."""
    changed = dict(tx.brand.all())
    images = {key: uploaded_logo(tx, changed.get(field, "")) for key, field in LOGO_KEYS.items()}
    return {
        **{
            field.value: changed[field]
            for field in BrandField
            if field in changed and not changed[field].startswith(LOGOS)
        },
        **{
            key: f"data:{MEDIA_TYPE};base64,{b64encode(image).decode('ascii')}"
            for key, image in images.items()
            if image is not None
        },
    }


def _user(user: User, declared: Sequence[Attribute]) -> Table:
    address = {
        part: getattr(user.claims.address, part) for part in user.claims.address.__struct_fields__
    }
    claims = {
        name: getattr(user.claims, name)
        for name in StandardClaims.__struct_fields__
        if name != "address"
    }
    if not user.claims.phone_number_verified:
        del claims["phone_number_verified"]
    parts = {part: text for part, text in address.items() if text}
    return {
        "uid": user.uid,
        "username": user.username,
        "email": user.email,
        "email_verified": user.email_verified_at is not None,
        "name": user.name,
        **claims,
        "address": parts or None,
        "attributes": attributes_of(user, declared) or None,
        **_disabled(user.disabled_at),
    }


def _group(tx: Transaction, group: Group, *, users: bool) -> Table:
    members: list[str] = []
    after = 0
    while users and (more := tx.groups.members(group, after, _PAGE)):
        members += [member.username for member in more]
        after = more[-1].uid
    return {
        **{field: getattr(group, field) for field in GroupWanted.__struct_fields__},
        "members": members or None,
    }


def _role(tx: Transaction, api: Api, role: str, *, users: bool) -> Table | None:
    holders: list[str] = []
    after = 0
    while users and (more := tx.api_roles.users(api.id, role, after, _PAGE)):
        holders += [username for _, username in more]
        after = more[-1][0]
    groups = list(tx.api_roles.groups(api.id, role, _MOST))
    if not holders and not groups:
        return None
    return {
        "api": api.identifier,
        "role": role,
        "users": holders or None,
        "groups": groups or None,
    }


def _client(client: Client) -> Table:
    values = {
        name: _duration(cast("Lifetime | None", value))
        if FIELDS[name].rule.kind is FieldType.LIFETIME
        else value
        for name, value in fields_shown(client).items()
    }
    return {"client_id": client.id, **values, **_disabled(client.disabled_at)}


def _disabled(at: object) -> Table:
    return {} if at is None else {"disabled": True}


def _duration(lifetime: Lifetime | None) -> str | None:
    return None if lifetime is None else f"{lifetime}s"
