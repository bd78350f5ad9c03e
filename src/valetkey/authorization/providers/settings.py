"""Identity providers at which users may sign in, each in one table of the file.

```toml
[[federation.providers]]
id = "google"
name = "Google"
issuer = "https://accounts.google.com"
client_id = "1234.apps.googleusercontent.com"
secret_file = "google.secret"
```
"""

import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, cast, get_args

import msgspec

from valetkey.config.rules import SECRET, InvalidValue, Rule, SettingsGroup, quoted
from valetkey.kernel.secret import Secret
from valetkey.kernel.url import parse_url

MOST = 12
"""Providers: more buttons than that are not read."""

ID = "[a-z][a-z0-9-]{0,30}"
"""The pattern of the id of a provider."""

SCOPE = r"[!#-\[\]-~]{1,100}"
CLAIM = r"[!#-\[\]-~]{1,200}"
LONGEST = 400
MOST_KEPT = 20

_ID = re.compile(ID, re.ASCII)


class ProviderKind(StrEnum):
    """The protocols of upstream providers."""

    OPENID = "openid"  # OpenID Connect, found by its issuer
    GITHUB = "github"  # GitHub's OAuth 2, and GitHub Enterprise at its own address


ISSUERS: Mapping[ProviderKind, str] = MappingProxyType(
    {ProviderKind.OPENID: "", ProviderKind.GITHUB: "https://github.com"}
)
"""The issuer of a provider that names none."""


class Names(NamedTuple):
    """How a list of names is read: the pattern of each, and how many there may be."""

    pattern: str
    most: int


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider, as the operator describes it: the members of its table, read by their types."""

    id: str
    """Part of the callback URL, and the name of its secret in the environment."""

    name: str
    """The label of the button."""

    kind: ProviderKind
    issuer: str
    """The issuer (OpenID Connect Discovery), or GitHub's address."""

    client_id: str
    secret_file: str = ""
    """File with the client secret; "" if the environment has it."""

    scopes: Annotated[tuple[str, ...], Names(SCOPE, LONGEST)] = ()
    """Scopes that are requested beyond those for identity."""

    sign_up: bool = True
    """Whether users without an account may create one, where sign-up is allowed at all."""

    keep_claims: Annotated[tuple[str, ...], Names(CLAIM, MOST_KEPT)] = ()
    """Claims of its ID token or userinfo that are kept for claims declared here; 8 KiB together."""

    identity_assertions: bool = False
    """Whether its identity assertions (ID-JAG) are accepted, with `tokens.identity_assertions`."""


LISTS: Mapping[str, Names] = MappingProxyType(
    {member.name: it[1] for member in fields(ProviderSettings) if (it := get_args(member.type))}
)
"""The members that are lists of names."""


def usable_issuer(issuer: str) -> bool:
    """Return whether this is an https address, or one of this machine."""
    web = parse_url(issuer)
    if web is None or issuer.endswith(("?", "#")):
        return False
    return web.scheme == "https" or web.is_loopback()


def _read(value: object) -> tuple[ProviderSettings, ...]:
    if not isinstance(value, list):
        raise InvalidValue(f"{quoted(value)} is not a list of tables")
    providers = tuple(_provider(table) for table in cast("list[object]", value))
    if len({provider.id for provider in providers}) != len(providers):
        raise InvalidValue("two of them have the same id")
    # Linked accounts are looked up by issuer: two providers of one issuer would share them.
    if len({(provider.kind, provider.issuer) for provider in providers}) != len(providers):
        raise InvalidValue("two of them have the same issuer")
    if len(providers) > MOST:
        raise InvalidValue(f"there are {len(providers)}, {MOST} are allowed")
    return providers


def _provider(value: object) -> ProviderSettings:
    if not isinstance(value, dict):
        raise InvalidValue(f"{quoted(value)} is not a table")
    table = cast("dict[str, object]", value)
    if unknown := table.keys() - set(ProviderSettings.__slots__):
        raise InvalidValue(f"{quoted(min(unknown))} is not something a provider has")
    provider_id, kind = _text(table, "id", ""), _kind(table)
    if _ID.fullmatch(provider_id) is None:
        wrong = f"the id {quoted(provider_id)} is not lower-case letters, digits and hyphens"
        raise InvalidValue(wrong)
    usual = {"id": "", "name": provider_id.capitalize(), "issuer": ISSUERS[kind], "client_id": ""}
    members = fields(ProviderSettings)
    defaults = {member.name: usual.get(member.name, member.default) for member in members}
    provider = ProviderSettings(
        **{member.name: _read_member(table, member, defaults[member.name]) for member in members}
    )
    if not usable_issuer(provider.issuer):
        raise InvalidValue(f"the issuer of {quoted(provider_id)} is not an https address")
    if not provider.client_id:
        raise InvalidValue(f"{quoted(provider_id)} has no client_id")
    if provider.identity_assertions and kind is not ProviderKind.OPENID:
        raise InvalidValue(
            f"{quoted(provider_id)} has identity_assertions, and is no OpenID provider"
        )
    return provider


def _read_member(table: Mapping[str, object], member: Field[Any], default: object) -> Any:
    if member.type is ProviderKind:
        return _kind(table)
    if member.type is bool:
        return _flag(table, member.name, default=bool(default))
    if member.type is str:
        return _text(table, member.name, str(default))
    return _names(table, member.name, LISTS[member.name])


def _text(table: Mapping[str, object], name: str, default: str) -> str:
    value = table.get(name, default)
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise InvalidValue(f"{name} is not a short text")
    return value


def _kind(table: Mapping[str, object]) -> ProviderKind:
    value = table.get("kind", ProviderKind.OPENID)
    if value not in tuple(ProviderKind):
        raise InvalidValue(f"the kind {quoted(value)} is unknown")
    return ProviderKind(cast("str", value))


def _flag(table: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} is neither true nor false")
    return value


def _names(table: Mapping[str, object], member: str, names: Names) -> tuple[str, ...]:
    value = table.get(member, [])
    if not isinstance(value, list):
        raise InvalidValue(f"{member} is not a list")
    listed = cast("list[object]", value)
    valid_names = tuple(
        name
        for name in listed
        if isinstance(name, str) and re.fullmatch(names.pattern, name, re.ASCII)
    )
    if len(valid_names) != len(listed):
        raise InvalidValue(f"{member} contains an invalid name")
    if len(valid_names) > names.most:
        raise InvalidValue(f"{member} contains {len(valid_names)} names, {names.most} are allowed")
    return valid_names


def _from_text(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _show(value: object) -> list[dict[str, object]]:
    return msgspec.json.decode(msgspec.json.encode(value), type=list[dict[str, object]])


PROVIDERS = Rule(
    "tables [[federation.providers]] with id, name, issuer, client_id and secret_file, and "
    'kind = "github" for GitHub',
    _read,
    _from_text,
    _show,
)


@dataclass(frozen=True, slots=True)
class FederationSettings:
    """Identity providers at which users may sign in: Google, GitHub, any OpenID provider."""

    GROUP: ClassVar = SettingsGroup.DIRECTORIES
    GUIDE: ClassVar = "how-to/people/sign-in-from-elsewhere"
    FILE_ONLY: ClassVar = frozenset({"providers", "secrets"})

    providers: Annotated[
        tuple[ProviderSettings, ...], PROVIDERS, "Providers at which users sign in"
    ] = ()
    """Each provider has a button on the sign-in page. Register the redirect URI
    `<authorization.url>/oauth/sign-in/with/<id>/callback` there. An account is linked by its user,
    or created with the email address that the provider has verified; accounts are never matched by
    email address."""

    secrets: Annotated[Secret | None, SECRET, "Secrets of the providers"] = None
    """Client secrets by id, such as `google=…,github=…`, to pass them through the environment
    instead of files."""


SECTIONS = {"federation": FederationSettings}
