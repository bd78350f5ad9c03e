"""The form of an app, for the console and the portal: its fields, their choices and versions."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.presets import AppKind, AppRules, Preset, new_app
from valetkey.authorization.model.client import (
    DISCOURAGED,
    AccessTokenFormat,
    ApplicationType,
    Client,
    ClientType,
    Editor,
    Field,
    GrantTypeName,
    IdTokenClaims,
    ProfileName,
)
from valetkey.authorization.operations.client_records import (
    declared_values,
    value_type,
    with_changes,
)
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES, OPENID
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    fields_of,
)
from valetkey.authorization.site.admin.input_fields import Choices, Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

_MOST_BOXES = 40
"""Scopes that are check boxes; more are typed."""

_SIGN_IN = translatable("Sign-in and addresses")
_PERMISSIONS = translatable("Permissions")
_TOKENS = translatable("Tokens")
_SECURITY = translatable("Security")
_LINKS = translatable("Logo and links")
_DETAILS = translatable("Details")
_NO_HINT = ""

# Of fields without a label in their rule, and hints for administrators.
_OWN: Words = {
    "redirect_uris": (
        _NO_HINT,
        translatable(
            "Users are redirected here after sign-in; the address must match exactly. For example "
            "https://app.example.com/callback, or http://localhost:3000/callback during "
            "development."
        ),
    ),
    "grant_types": (_NO_HINT, _NO_HINT),
    "scopes": (
        _NO_HINT,
        translatable(
            "Users see these descriptions on the consent page and can deny each one. Request only "
            "what you need."
        ),
    ),
    "requires_pkce": (
        _NO_HINT,
        translatable(
            "Disable this only for software that does not support PKCE. Stolen codes can then be "
            "used by others."
        ),
    ),
    "default_scopes": (
        translatable("Default scopes"),
        translatable("Granted if the app requests none, out of the scopes above."),
    ),
    "required_scopes": (
        translatable("Required scopes"),
        translatable("Users cannot deselect them. Out of the scopes above."),
    ),
    "access_token_lifetime": (
        translatable("Lifetime of access tokens"),
        translatable("Leave empty for the default of the server."),
    ),
    "rotates_refresh_token": (
        translatable("Rotate refresh tokens"),
        translatable("Each use returns a new one; the old one no longer works."),
    ),
    "ends_with_session": (
        translatable("Access ends with the session"),
        translatable("Refresh tokens end when the user signs out."),
    ),
    "id_token_claims": (
        translatable("Claims in ID tokens"),
        translatable("Which claims the ID tokens of the token endpoint carry."),
    ),
    "exchanges_tokens_of": (
        translatable("Exchanges tokens of"),
        translatable("Apps whose tokens it may exchange, by name or client ID."),
    ),
    "exchanges_for": (
        translatable("Exchanges tokens for"),
        translatable("APIs that it may exchange them for, by name or identifier."),
    ),
    "required_groups": (
        translatable("Required groups"),
        translatable("Only members of one of these groups can sign in."),
    ),
    "assertion_audiences": (translatable("Audiences of assertions"), _NO_HINT),
}
APP_CHOICES: Mapping[str, Choices] = {
    "type": (
        (
            ClientType.CONFIDENTIAL,
            translatable("Confidential: it runs on a server and keeps a secret"),
        ),
        (ClientType.PUBLIC, translatable("Public: it runs at the user and keeps no secret")),
    ),
    "application_type": (
        (ApplicationType.WEB, translatable("Web application")),
        (ApplicationType.NATIVE, translatable("Native: installed on a phone or computer")),
    ),
    "profile": (
        (ProfileName.MODERN, translatable("Modern: PKCE is required, no secrets in URLs")),
        (ProfileName.CLASSIC, translatable("Classic: for software that you cannot change")),
    ),
    "access_token_format": (
        (AccessTokenFormat.JWT, translatable("JWT: the API verifies it itself")),
        (AccessTokenFormat.REFERENCE, translatable("Reference: the API introspects it")),
    ),
    "id_token_claims": (
        (
            IdTokenClaims.AUTO,
            translatable("Requested claims if the app registered itself, else those of its scopes"),
        ),
        (IdTokenClaims.SCOPE, translatable("Claims of the granted scopes")),
        (IdTokenClaims.REQUESTED, translatable("Claims that the request names")),
    ),
}
"""Value and text of each choice."""

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "": ("name", "client_uri", "description"),
    _SIGN_IN: ("redirect_uris", "application_type", "required_groups"),
    _PERMISSIONS: ("scopes", "default_scopes", "required_scopes"),
    _TOKENS: (
        "access_token_format",
        "access_token_lifetime",
        "id_token_claims",
        "rotates_refresh_token",
        "ends_with_session",
    ),
    _SECURITY: (
        "type",
        "grant_types",
        "profile",
        "requires_pkce",
        "exchanges_tokens_of",
        "exchanges_for",
        "assertion_audiences",
    ),
    _LINKS: ("logo_uri", "policy_uri", "tos_uri"),
}
APP_STATES = {
    "redirect_uris": translatable("%(value)s redirect URIs"),
    "required_groups": translatable("%(value)s required groups"),
    "scopes": translatable("%(value)s scopes"),
    "access_token_format": translatable("Access tokens: %(value)s"),
    "access_token_lifetime": translatable("Access tokens last %(value)s"),
    "rotates_refresh_token": translatable("Refresh tokens rotate"),
    "ends_with_session": translatable("Access ends with the session"),
    "type": "%(value)s",
    "profile": "%(value)s",
    "grant_types": translatable("%(value)s grant types"),
    "requires_pkce": translatable("PKCE is required"),
}
"""What the header of a closed section says of a value; of lists from two entries on."""

_FIELDS = {field.name: field for field in fields_of(Editor.ADMINISTRATOR)}


def _words(field: Field) -> tuple[str, str]:
    label, hint = _OWN.get(field.name, ("", ""))
    return field.rule.label or label or field.name, field.rule.hint or hint


_PLACED = {name: title for title, names in _SECTIONS.items() for name in names}
APP_GROUPS = {**_PLACED, **{name: _DETAILS for name in _FIELDS if name not in _PLACED}}
"""The section of each field; a field that none of them names is in the last one."""
APP_WORDS: Words = {name: _words(_FIELDS[name]) for name in APP_GROUPS}

_OF_DEVELOPERS = (*fields_of(Editor.DEVELOPER), FIELDS["grant_types"])
_names = {field.name for field in _OF_DEVELOPERS}
DEVELOPER_WORDS: Words = {name: words for name, words in APP_WORDS.items() if name in _names}
"""The fields that developers can change."""

DeveloperChange = msgspec.defstruct(
    "DeveloperChange",
    [(field.name, value_type(field) | UnsetType, UNSET) for field in _OF_DEVELOPERS],
    namespace={"__doc__": "Changes of an app by a developer, unchecked; omitted fields stay."},
    frozen=True,
)

VERIFIED = translatable(
    "This app is verified. Changing its name, logo, policy links or redirect URIs removes the "
    "verification until it is reviewed again."
)
_OF_DEVICE = translatable(
    "Users are redirected here after sign-in: a custom scheme such as com.example.app:/callback, an"
    " https URL that opens the app, or http://127.0.0.1/callback with any port."
)
_SAFE = translatable("Only an administrator can enable the implicit and the password grant.")
_USERS = ("redirect_uris", "scopes", "grant_types")


class AppFields(Struct, frozen=True):
    """The fields of the form of an app for those with these `rules`.

    `scopes` describes each scope that users can be asked for.
    """

    rules: AppRules
    scopes: Mapping[str, str]
    for_developers: bool = False

    @property
    def words(self) -> Words:
        """Label and hint of each field."""
        return DEVELOPER_WORDS if self.for_developers else APP_WORDS

    def new(self, kind: AppKind, preset: Preset | None = None) -> ClientMetadata:
        """Return the metadata of a new app before anything was typed."""
        profile, allowed = self.rules.default_profile, self.rules.grant_types
        if preset is not None:
            return preset.metadata(profile=profile, allowed=allowed)
        app = new_app(kind, profile, allowed)
        return app if kind is AppKind.MACHINE else replace(app, scopes=(OPENID,))

    def subject(self, app: ClientMetadata, kind: AppKind, back: str, above: str) -> FormSubject:
        """Return the subject of the form with the values of this app."""
        without, hidden = set[str](), list[tuple[str, str]]()
        if self.for_developers:
            if kind is not AppKind.SERVER:
                without.add("requires_pkce")
            if kind is AppKind.MACHINE:
                without.update(_USERS)
            else:
                # The kind of the app implies it, so that it has no check box.
                hidden.append(("grant_types", GrantTypeName.AUTHORIZATION_CODE.value))
        return FormSubject(
            back,
            above,
            values=texts_of_app(app),
            without=without,
            choices=self._choices(app, kind),
            hidden=hidden,
            hints={
                **({"redirect_uris": _OF_DEVICE} if kind is AppKind.DEVICE else {}),
                **({"grant_types": _SAFE} if self.for_developers else {}),
            },
        )

    def edited(self, before: ClientMetadata, body: msgspec.Struct) -> ClientMetadata:
        """Return the metadata after an edit; fields that the form does not have stay."""
        if not self.for_developers:
            return with_changes(before, body)
        values = dict(declared_values(body))
        grants = values.pop("grant_types", before.grant_types)
        return self.rules.edited(before, values, _texts(grants) or ())

    def _choices(self, app: ClientMetadata, kind: AppKind) -> Mapping[str, Choices]:
        grant_types = self.rules.registrar.rules.grant_types
        names = self._developer_grants(app, kind) if self.for_developers else self._grants(app)
        grants = tuple(
            (it, (grant_types[it].label if it in grant_types else "") or it) for it in names
        )
        scopes = {*self.scopes, *app.scopes}
        boxes = {"scopes": tuple(self._boxes(app))} if len(scopes) <= _MOST_BOXES else {}
        return {"grant_types": grants, **boxes}

    def _developer_grants(self, app: ClientMetadata, kind: AppKind) -> Sequence[str]:
        grant_types, allowed = self.rules.registrar.rules.grant_types, set(self.rules.grant_types)
        return (
            *(
                name
                for name in self.rules.options
                if name in {*allowed, *app.grant_types}
                and name != GrantTypeName.AUTHORIZATION_CODE
                and (kind is AppKind.SERVER or not grant_types[name].needs_secret)
            ),
            *(name for name in DISCOURAGED if name in app.grant_types),
        )

    def _grants(self, app: ClientMetadata) -> Sequence[str]:
        # The legacy ones are enabled by an operation of their own.
        grant_types, had = self.rules.registrar.rules.grant_types, app.grant_types
        names = [name for name in grant_types if name not in DISCOURAGED or name in had]
        return (*names, *sorted(set(had) - set(names)))

    def _boxes(self, app: ClientMetadata) -> Iterator[tuple[str, str]]:
        """Return scopes with their descriptions by group, each after its heading if several."""
        groups: dict[str, list[str]] = {_IDENTITY: []}
        offered = [name for name in self.scopes if name in self.rules.scopes]
        for name in offered:
            group = name.rpartition(":")[0] or _GENERAL
            groups.setdefault(_IDENTITY if name in IDENTITY_SCOPES else group, []).append(name)
        groups[_GIVEN] = [name for name in app.scopes if name not in offered]
        groups = {heading: names for heading, names in groups.items() if names}
        for heading, names in groups.items():
            if len(groups) > 1:
                yield "", heading
            yield from ((name, self.scopes.get(name, name)) for name in names)


_IDENTITY = translatable("Sign-in and profile")
_GENERAL = translatable("General")
_GIVEN = translatable("Assigned by an administrator")


def texts_of_app(metadata: ClientMetadata) -> Mapping[str, str]:
    """Return the value of each field as its text."""
    return {name: _text(field.value_of(metadata)) for name, field in _FIELDS.items()}


def _text(value: object) -> str:
    texts = _texts(value)
    return as_text(value) if texts is None else "\n".join(texts)


def _texts(values: object) -> Sequence[str] | None:
    return tuple(str(value) for value in values) if isinstance(values, tuple) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


_VERSION = re.compile(rf"[0-9a-f]{{8}}(?:\.[0-9a-f]{{8}}){{{len(_OF_DEVELOPERS) - 1}}}")


def version_of(client: Client) -> str:
    """Return the version of the app in its form, for optimistic locking.

    It is a short digest of each field that developers can change.
    """
    return ".".join(_digests(client).values())


def changed_since(client: Client, version: str) -> tuple[str, ...]:
    """Return the labels of fields that changed; all of them if the version is malformed."""
    now = _digests(client)
    if _VERSION.fullmatch(version) is None:
        return tuple(now)
    then = dict(zip(now, version.split("."), strict=True))
    return tuple(name for name, digest in now.items() if then[name] != digest)


def _digests(client: Client) -> Mapping[str, str]:
    metadata = metadata_of(client)
    return {
        field.rule.label: hashlib.sha256(repr(field.value_of(metadata)).encode()).hexdigest()[:8]
        for field in _OF_DEVELOPERS
    }
