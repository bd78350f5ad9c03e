"""Read the file of `valetkey apply`: the desired users, clients, APIs and more."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import cast

from msgspec import Struct

from valetkey.authorization.applying import (
    DeclaredEntry,
    InvalidDeclaredValue,
    Reader,
    read_boolean,
    read_json,
    read_lifetime,
    read_table,
    read_text,
    read_texts,
)
from valetkey.authorization.features import DECLARED_KINDS
from valetkey.authorization.model.client import RESOURCE_SERVER, Editor, FieldType
from valetkey.authorization.model.user import TEXT_CLAIMS, Address, fold
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.config.agreement import Problem
from valetkey.config.load import OperatorErrors, read_toml
from valetkey.config.rules import quoted
from valetkey.config.sections.people import BrandField
from valetkey.kernel.secret import Secret
from valetkey.kernel.text import printable, trimmed

MEGABYTES = 8
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)


class DeclaredObjects(Struct, frozen=True):
    """The content of the file."""

    users: tuple[DeclaredEntry, ...]
    clients: tuple[DeclaredEntry, ...]
    groups: tuple[DeclaredEntry, ...] = ()
    roles: tuple[DeclaredEntry, ...] = ()
    name: str = ""
    """The name by which the file owns what it declares; "" for a file that owns nothing."""
    of_features: Mapping[str, tuple[DeclaredEntry, ...]] = {}
    """The objects of each feature's kind, by the name of the kind."""
    brand: DeclaredEntry | None = None


def read_site(path: Path) -> DeclaredObjects:
    """Return the content of the file. Raises OperatorErrors with everything that is invalid in it.

    The rules for clients and users are not checked here.
    """
    document = read_toml(path, MEGABYTES)
    tables = (
        *("brand", "users", "groups", "clients", "roles"),
        *(kind.table for kind in DECLARED_KINDS),
    )
    problems = [
        _unknown(name, "table", name, tables)
        for name in document
        if name not in tables and name != "name"
    ]
    name = document.get("name", "")
    if not isinstance(name, str) or (name and NAME.fullmatch(name) is None):
        right = "write up to 80 letters, digits and . _ -"
        problems.append(Problem("name", f"{quoted(name)} is not valid", right))
    brand = None
    if "brand" in document:
        brand = _entry("brand", document["brand"], _BRAND, problems, above="[brand]")
    users = tuple(_wanted("users", document, _USER, "password", problems))
    # Exports of earlier versions have the resource server, which no file can declare.
    clients = tuple(
        client
        for client in _wanted("clients", document, _CLIENT, "client_secret", problems)
        if client.text("client_id") != RESOURCE_SERVER
    )
    groups = tuple(_wanted("groups", document, _GROUP, "", problems))
    roles = tuple(_wanted("roles", document, _ROLE, "", problems))
    of_features = {
        kind.name: tuple(_wanted(kind.table, document, kind.readers, kind.secret_key, problems))
        for kind in DECLARED_KINDS
    }
    problems += _repeated(groups, "name", str)
    problems += _lacking(groups, "name", "…")
    for key in ("api", "role"):
        problems += _lacking(roles, key, "…")
    problems += _repeated(users, "username", fold)
    problems += _repeated(users, "uid", str)
    problems += _repeated(clients, "client_id", str)
    problems += _lacking(users, "username", "…")
    for kind in DECLARED_KINDS:
        problems += _repeated(of_features[kind.name], kind.key, kind.spelled)
        problems += _lacking(of_features[kind.name], kind.key, kind.example)
    problems += [
        Problem(client.path, "it has no name", 'write name = "…"')
        for client in clients
        if not client.text("client_id") and not client.text("name")
    ]
    if problems:
        raise OperatorErrors(str(path), problems)
    return DeclaredObjects(users, clients, groups, roles, str(name), of_features, brand)


def holds_secrets(site: DeclaredObjects) -> bool:
    """Return whether the file contains a secret."""
    of_features = chain.from_iterable(site.of_features.values())
    return any(entry.secret is not None for entry in (*site.users, *site.clients, *of_features))


def _wanted(
    kind: str,
    document: Mapping[str, object],
    readers: Mapping[str, Reader],
    secret_key: str,
    problems: list[Problem],
) -> Iterator[DeclaredEntry]:
    listed = document.get(kind, [])
    if not isinstance(listed, list):
        problems.append(Problem(kind, "it is not a list", f"write [[{kind}]] above each of them"))
        return
    for number, value in enumerate(cast("list[object]", listed), start=1):
        path, above = f"{kind}[{number}]", f"[[{kind}]]"
        entry = _entry(path, value, readers, problems, above=above, secret_key=secret_key)
        if entry is not None:
            yield entry


def _entry(
    path: str,
    entry: object,
    readers: Mapping[str, Reader],
    problems: list[Problem],
    *,
    above: str,
    secret_key: str = "",
) -> DeclaredEntry | None:
    """Return a table of the file, None if it is something else."""
    if not isinstance(entry, dict):
        problems.append(Problem(path, "it is not a table", f"write {above} above it"))
        return None
    values: dict[str, object] = {}
    for key, value in cast("dict[str, object]", entry).items():
        if key not in readers:
            elsewhere = _ELSEWHERE.get((path.partition("[")[0], key), "")
            problems.append(_unknown(f"{path}.{key}", "key", key, tuple(readers), elsewhere))
            continue
        name = _NAMES.get(key, key)
        if name in values:
            problems.append(Problem(f"{path}.{key}", f"it is {name} too", "write one of them"))
            continue
        try:
            values[name] = readers[key](value if key == secret_key else trimmed(value))
        except InvalidDeclaredValue as right:
            shown = "its value" if key == secret_key else quoted(value)
            problems.append(Problem(f"{path}.{key}", f"{shown} is not valid", str(right)))
    secret = values.pop(secret_key, None)
    return DeclaredEntry(path, values, Secret(str(secret)) if secret is not None else None)


def _unknown(
    path: str, what: str, name: str, names: tuple[str, ...], elsewhere: str = ""
) -> Problem:
    close = get_close_matches(name, names, 1)
    right = f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}"
    return Problem(printable(path, "�"), f"unknown {what}", elsewhere or right)


def _lacking(entries: tuple[DeclaredEntry, ...], key: str, example: str) -> Iterator[Problem]:
    for entry in entries:
        if not entry.text(key):
            yield Problem(entry.path, f"it has no {key}", f'write {key} = "{example}"')


def _repeated(
    entries: tuple[DeclaredEntry, ...], key: str, spelt: Callable[[str], str]
) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for entry in entries:
        value = spelt(entry.text(key))
        if value and value in seen:
            yield Problem(
                f"{entry.path}.{key}", f"{seen[value]} has the same", "name each only once"
            )
        seen[value] = entry.path


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidDeclaredValue("write a whole number")
    return value


def _seconds(value: object) -> int:
    return read_lifetime(value) if isinstance(value, str) else _number(value)


def _address(value: object) -> Mapping[str, str]:
    parts = Address.__struct_fields__
    if not isinstance(value, dict):
        raise InvalidDeclaredValue(f'write a table, such as {{ {parts[0]} = "…" }}')
    members = cast("dict[str, object]", value)
    for part in members:
        if part not in parts:
            raise InvalidDeclaredValue(f"its parts are {', '.join(parts)}")
    return {part: read_text(member) for part, member in members.items()}


def _keys(value: object) -> str:
    """Return a JWK set, given as a table or as its JSON."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise InvalidDeclaredValue(
            "write a JWK set: a table such as { keys = [{ … }] }, or its JSON"
        )
    return json.dumps(read_json(cast("dict[str, object]", value)))


LOGO_KEYS = MappingProxyType({"logo": BrandField.LOGO_URL, "logo_dark": BrandField.LOGO_DARK_URL})
"""The keys of images to upload, with the field of their path."""

_BRAND: Mapping[str, Reader] = dict.fromkeys((*BrandField, *LOGO_KEYS), read_text)

_GROUP: Mapping[str, Reader] = {
    **dict.fromkeys(GroupWanted.__struct_fields__, read_text),
    "renamed_from": read_text,
    "members": read_texts,
}

_ROLE: Mapping[str, Reader] = {
    "api": read_text,
    "role": read_text,
    "users": read_texts,
    "groups": read_texts,
}

_USER: Mapping[str, Reader] = {
    "uid": _number,
    "username": read_text,
    "email": read_text,
    "email_verified": read_boolean,
    "name": read_text,
    **dict.fromkeys(TEXT_CLAIMS, read_text),
    "phone_number_verified": read_boolean,
    "address": _address,
    "attributes": read_table,
    "password": read_text,
    "disabled": read_boolean,
}

_KINDS: Mapping[FieldType, Reader] = {
    FieldType.TEXTS: read_texts,
    FieldType.SCOPES: read_texts,
    FieldType.GRANT_TYPES: read_texts,
    FieldType.FLAG: read_boolean,
    FieldType.WHOLE: _seconds,
    FieldType.LIFETIME: read_lifetime,
    FieldType.KEY_SET: _keys,
}
_KEYS = "jwks"
_CLIENT: Mapping[str, Reader] = {
    "client_id": read_text,
    "client_secret": read_text,
    _KEYS: _keys,
    **{field.name: _KINDS.get(field.rule.kind, read_text) for field in fields_of(Editor.OPERATOR)},
    "disabled": read_boolean,
}
_NAMES = {_KEYS: "key_set"}
"""Fields that are written by their name in RFC 7591, and their names here, which count too."""

_ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("users", "groups"): "groups name their members: write members in [[groups]]",
    ("users", "roles"): "roles name their users: write users in [[roles]]",
    ("groups", "users"): "write members",
    ("groups", "roles"): "roles name their groups: write groups in [[roles]]",
    ("roles", "members"): "write users and groups",
    **{
        ("clients", field.member): f"write {field.name}"
        for field in fields_of(Editor.OPERATOR)
        if field.member not in _CLIENT
    },
}
"""Keys that are written under another name or in another table, and what to write."""
