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
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, cast

import msgspec

from valetkey.config.rules import SECRET, Group, InvalidValue, Rule, quoted
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
_SCOPE = re.compile(SCOPE, re.ASCII)
_CLAIM = re.compile(CLAIM, re.ASCII)


class ProviderKind(StrEnum):
    """The protocols of upstream providers."""

    OPENID = "openid"  # OpenID Connect, found by its issuer
    GITHUB = "github"  # GitHub's OAuth 2, and GitHub Enterprise at its own address


ISSUERS: Mapping[ProviderKind, str] = MappingProxyType(
    {ProviderKind.OPENID: "", ProviderKind.GITHUB: "https://github.com"}
)
"""The issuer of a provider that names none."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider, as the operator describes it."""

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

    scopes: tuple[str, ...] = ()
    """Scopes that are requested beyond those for identity."""

    sign_up: bool = True
    """Whether users without an account may create one, where sign-up is allowed at all."""

    keep_claims: tuple[str, ...] = ()
    """Claims of its ID token or userinfo that are kept for claims declared here; 8 KiB together."""

    identity_assertions: bool = False
    """Whether its identity assertions (ID-JAG) are accepted, with `tokens.identity_assertions`."""


def usable_issuer(issuer: str) -> bool:
    """Return whether this is an https address, or one of this machine."""
    web = parse_url(issuer)
    if web is None or issuer.endswith(("?", "#")):
        return False
    return web.scheme == "https" or web.is_loopback()


def _read(value: object) -> tuple[ProviderSettings, ...]:
    if not isinstance(value, list):
        raise InvalidValue(f"{quoted(value)} is not a list of tables")
    found = tuple(_provider(each) for each in cast("list[object]", value))
    if len({each.id for each in found}) != len(found):
        raise InvalidValue("two of them have the same id")
    # Linked accounts are looked up by issuer: two providers of one issuer would share them.
    if len({(each.kind, each.issuer) for each in found}) != len(found):
        raise InvalidValue("two of them have the same issuer")
    if len(found) > MOST:
        raise InvalidValue(f"there are {len(found)}, {MOST} are allowed")
    return found


def _provider(value: object) -> ProviderSettings:
    if not isinstance(value, dict):
        raise InvalidValue(f"{quoted(value)} is not a table")
    said = cast("dict[str, object]", value)
    if unknown := said.keys() - set(ProviderSettings.__slots__):
        raise InvalidValue(f"{quoted(min(unknown))} is not something a provider has")
    id_, kind = _text(said, "id"), _kind(said)
    if _ID.fullmatch(id_) is None:
        raise InvalidValue(f"the id {quoted(id_)} is not lower-case letters, digits and hyphens")
    issuer = _text(said, "issuer", ISSUERS[kind])
    if not usable_issuer(issuer):
        raise InvalidValue(f"the issuer of {quoted(id_)} is not an https address")
    client_id = _text(said, "client_id")
    if not client_id:
        raise InvalidValue(f"{quoted(id_)} has no client_id")
    trusted = _flag(said, "identity_assertions", default=False)
    if trusted and kind is not ProviderKind.OPENID:
        raise InvalidValue(f"{quoted(id_)} has identity_assertions, and is no OpenID provider")
    return ProviderSettings(
        id=id_,
        name=_text(said, "name", id_.capitalize()),
        kind=kind,
        issuer=issuer,
        client_id=client_id,
        secret_file=_text(said, "secret_file"),
        scopes=_names(said, "scopes", _SCOPE),
        keep_claims=_names(said, "keep_claims", _CLAIM, MOST_KEPT),
        sign_up=_flag(said, "sign_up", default=True),
        identity_assertions=trusted,
    )


def _text(said: Mapping[str, object], name: str, default: str = "") -> str:
    value = said.get(name, default)
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise InvalidValue(f"{name} is not a short text")
    return value


def _kind(said: Mapping[str, object]) -> ProviderKind:
    value = said.get("kind", ProviderKind.OPENID)
    if value not in tuple(ProviderKind):
        raise InvalidValue(f"the kind {quoted(value)} is unknown")
    return ProviderKind(cast("str", value))


def _flag(said: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = said.get(name, default)
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} is neither true nor false")
    return value


def _names(
    said: Mapping[str, object], member: str, pattern: re.Pattern[str], most: int = LONGEST
) -> tuple[str, ...]:
    value = said.get(member, [])
    if not isinstance(value, list):
        raise InvalidValue(f"{member} is not a list")
    names = cast("list[object]", value)
    found = tuple(each for each in names if isinstance(each, str) and pattern.fullmatch(each))
    if len(found) != len(names):
        raise InvalidValue(f"{member} contains an invalid name")
    if len(found) > most:
        raise InvalidValue(f"{member} contains {len(found)} names, {most} are allowed")
    return found


def _from_text(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _show(value: object) -> list[dict[str, object]]:
    return [
        {
            "id": each.id,
            "name": each.name,
            "kind": each.kind.value,
            "issuer": each.issuer,
            "client_id": each.client_id,
            "secret_file": each.secret_file,
            "scopes": list(each.scopes),
            "sign_up": each.sign_up,
            "keep_claims": list(each.keep_claims),
            "identity_assertions": each.identity_assertions,
        }
        for each in cast("tuple[ProviderSettings, ...]", value)
    ]


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

    GROUP: ClassVar = Group.DIRECTORIES
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
