"""Kinds of app, and presets: the registration and configuration of common clients."""

import base64
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from importlib.resources import files
from types import MappingProxyType
from typing import cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct, field

from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.model.client import (
    DISCOURAGED,
    ApplicationType,
    Client,
    ClientType,
    GrantTypeName,
    ProfileName,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import OFFLINE_ACCESS
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, with_values
from valetkey.authorization.protocol.register.client_rules import offered_to_developers
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import fresh_id


class AppKind(StrEnum):
    """The kind of app; client type, authentication and PKCE follow from it."""

    SERVER = "server"  # a web application with a server that keeps a secret
    BROWSER = "browser"  # a single-page application, whose code is public
    DEVICE = "device"  # on a phone or a desktop
    MACHINE = "machine"  # no user is involved


def kind_of(app: Client | ClientMetadata) -> AppKind:
    """Derive the kind from grant types, application type and client type."""
    if set(app.grant_types) == {GrantTypeName.CLIENT_CREDENTIALS}:
        return AppKind.MACHINE
    if app.application_type == ApplicationType.NATIVE:
        return AppKind.DEVICE
    return AppKind.BROWSER if app.type == ClientType.PUBLIC else AppKind.SERVER


class RegistrationDenial(StrEnum):
    """Why a user may not register an app, or not one more."""

    CLOSED = "closed"
    UNVERIFIED = "unverified"
    UNINVITED = "uninvited"
    FULL = "full"


class DeveloperPolicy(Struct, frozen=True):
    """Which users register apps: `registrants` is `everyone`, `verified`, `invited` or `nobody`.

    It is "" where users have no pages to do so. `setting` is the name of the setting that says it,
    and `default_profile` is what the form of an app proposes.
    """

    registrants: str = ""
    setting: str = ""
    default_profile: str = ProfileName.MODERN.value
    has_area: Callable[[User], bool] = lambda _: False
    """Whether the header shows this user the developers' area."""

    @property
    def needs_invitation(self) -> bool:
        """Whether an administrator admits each user who may register apps."""
        return self.registrants == "invited"


class AppRules(Struct, frozen=True):
    """What the form of an app offers: `scopes`, `grant_types`, and the profile of a new app.

    `most` is the number of apps that one user may own.
    """

    registrar: Registrar
    scopes: Collection[str]
    grant_types: Collection[str]
    default_profile: str
    most: int = 0

    @property
    def kinds(self) -> tuple[AppKind, ...]:
        """Return the kinds of apps that can be registered with the grant types in the settings."""
        allowed, kinds = self.grant_types, list[AppKind]()
        if GrantTypeName.AUTHORIZATION_CODE in allowed:
            kinds += [AppKind.SERVER, AppKind.BROWSER, AppKind.DEVICE]
        if GrantTypeName.CLIENT_CREDENTIALS in allowed:
            kinds.append(AppKind.MACHINE)
        return tuple(kinds)

    @property
    def options(self) -> Collection[str]:
        """Return the grant types that developers can choose."""
        return offered_to_developers(self.registrar.rules.grant_types)

    def edited(
        self, before: ClientMetadata, values: Mapping[str, object], grants: Collection[str]
    ) -> ClientMetadata:
        """Return the metadata after an edit by a developer; fields without a value stay.

        Of the grant types that the form can choose and the legacy ones the app has those in
        `grants`, as far as the settings allow them or it had them before; others were given by an
        administrator and stay.
        """
        after = with_values(before, values)
        added = tuple(name for name in after.scopes if name not in before.scopes)
        default = [name for name in before.default_scopes if name in after.scopes]
        default += [name for name in added if name != OFFLINE_ACCESS]
        allowed = set(grants) & {*self.grant_types, *before.grant_types}
        chosen = {*self.options, *DISCOURAGED}
        other_types = {name for name in before.grant_types if name not in chosen}
        return replace(
            after,
            grant_types=tuple(sorted(other_types | allowed)),
            default_scopes=Scope(tuple(default)).names,
            required_scopes=tuple(n for n in before.required_scopes if n in after.scopes),
        )


def fresh_client_id(random: Callable[[int], bytes]) -> str:
    """Generate the id of a new app."""
    return fresh_id("app", random)


def new_app(kind: AppKind, profile: str, allowed: Collection[str]) -> ClientMetadata:
    """Return the metadata with which the form of a new app starts, its grant types `allowed`."""
    public = kind in {AppKind.BROWSER, AppKind.DEVICE}
    grants = [GrantTypeName.AUTHORIZATION_CODE.value, GrantTypeName.REFRESH_TOKEN.value]
    if kind is AppKind.MACHINE:
        grants = [GrantTypeName.CLIENT_CREDENTIALS.value]
    return ClientMetadata(
        name="",
        type=(ClientType.PUBLIC if public else ClientType.CONFIDENTIAL).value,
        application_type=(
            ApplicationType.NATIVE if kind is AppKind.DEVICE else ApplicationType.WEB
        ).value,
        profile=profile,
        grant_types=tuple(name for name in grants if name in allowed),
        requires_pkce=kind is not AppKind.MACHINE,
    )


SECRET_TO_FILL_IN = "CLIENT_SECRET"
"""The placeholder in a configuration whose secret is not known."""

_ALL = frozenset(grant.value for grant in GrantTypeName)
_PLACE = re.compile(r"\{([a-z_]+)\}")


class ConfigurationFile(Struct, frozen=True):
    """A file of an app, or a part of it, with the values of its registration filled in."""

    name: str
    text: str


class Preset(Struct, frozen=True):
    """A framework or product that an app is built with: one entry of presets.toml.

    `group` is `product` for a finished program, else the kind: one heading of the list of presets.
    `registration` has values of `ClientMetadata` by field. `like` names the preset whose
    registration this one shares. `client`, `needs` and `run` are documentation; `run` is the test.
    """

    label: str
    kind: AppKind
    client: str
    needs: tuple[str, ...]
    files: Mapping[str, str]
    run: str
    name: str = ""
    group: str = ""
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = ()
    registration: Mapping[str, object] = field(default_factory=dict[str, object])
    like: str = ""

    def metadata(
        self, name: str = "", *, profile: str = "", allowed: Collection[str] | None = None
    ) -> ClientMetadata:
        """Return what an app starts with, before its own redirect URIs are known.

        Of the grant types it has those in `allowed`, all without it.
        """
        start = new_app(self.kind, profile, _ALL if allowed is None else allowed)
        if self.grant_types:
            granted = (
                grant_type
                for grant_type in self.grant_types
                if allowed is None or grant_type in allowed
            )
            start = replace(start, grant_types=tuple(granted))
        uris = (self.redirect_uri,) if self.redirect_uri else ()
        values = {"name": name, "redirect_uris": uris, "scopes": self.scopes}
        flags = {key: value for key, value in self.registration.items() if not _is_filled(value)}
        start = replace(start, requires_pkce=start.type == ClientType.PUBLIC)
        return with_values(start, {**values, **flags})

    def completed(self, metadata: ClientMetadata) -> ClientMetadata:
        """Return the metadata with what follows from its first redirect URI."""
        uri = metadata.redirect_uris[0] if metadata.redirect_uris else ""
        places = {"redirect_uri": uri, "app": self._app(uri)}
        values = {
            name: _filled_value(value, places)
            for name, value in self.registration.items()
            if _is_filled(value)
        }
        return with_values(metadata, values) if values and uri else metadata

    def configuration(
        self,
        client: Client | ClientMetadata,
        client_id: str,
        issuer: str,
        secret: str,
        random: Callable[[int], bytes],
    ) -> tuple[ConfigurationFile, ...]:
        """Return the configuration of a registered app; `secret` is "" where it is not known."""
        uri = client.redirect_uris[0] if client.redirect_uris else ""
        app = self._app(uri)
        places = {
            "app": app,
            "app_quoted": quote(quote(app, safe=""), safe=""),
            "scheme": uri.partition(":")[0],
            "folder": urlsplit(uri).path.rpartition("/")[0] + "/",
            "is_https": str(uri.startswith("https:")).lower(),
            "issuer_host": urlsplit(issuer).netloc,
            "issuer_quoted": quote(issuer, safe=""),
            "redirect_uri": uri,
            "issuer": issuer,
            "client_id": client_id,
            "client_secret": secret or SECRET_TO_FILL_IN,
            "random": base64.urlsafe_b64encode(random(32)).decode(),
            "random_hex": random(32).hex(),
        }
        return tuple(
            ConfigurationFile(name, fill(text, places)) for name, text in self.files.items()
        )

    def _app(self, redirect_uri: str) -> str:
        """Return the app's base URL, without a trailing slash."""
        usual = urlsplit(self.redirect_uri).path
        if usual and redirect_uri.endswith(usual):
            return redirect_uri.removesuffix(usual)
        parts = urlsplit(redirect_uri)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def _is_filled(value: object) -> bool:
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    return any(isinstance(text, str) and _PLACE.search(text) for text in texts)


def _filled_value(value: object, places: Mapping[str, str]) -> object:
    if isinstance(value, list):
        return tuple(fill(str(item), places) for item in cast("list[object]", value))
    return fill(str(value), places)


def fill(text: str, places: Mapping[str, str]) -> str:
    """Return the text with each `{place}` replaced by its value; other braces stay."""
    return _PLACE.sub(lambda match: places.get(match[1], match[0]), text)


def _read() -> Mapping[str, Preset]:
    text = files("valetkey.authorization.actions").joinpath("presets.toml").read_text()
    file_presets = msgspec.convert(tomllib.loads(text), dict[str, Preset])
    presets = dict[str, Preset]()
    for name, preset in file_presets.items():
        shared = file_presets[preset.like] if preset.like else preset
        presets[name] = replace(
            preset,
            name=name,
            group=preset.group or preset.kind.value,
            redirect_uri=preset.redirect_uri or shared.redirect_uri,
            scopes=preset.scopes or shared.scopes,
            grant_types=preset.grant_types or shared.grant_types,
            registration=preset.registration or shared.registration,
        )
    return MappingProxyType(presets)


PRESETS: Mapping[str, Preset] = _read()
"""Every preset by its name, in the order in which they are shown."""


PRESET_GROUPS = ("server", "browser", "device", "product", "machine")
"""The groups of presets, in the order in which they are shown."""


def presets_of(kind: AppKind) -> tuple[Preset, ...]:
    """Return the presets of apps of this kind."""
    return tuple(preset for preset in PRESETS.values() if preset.kind is kind)
