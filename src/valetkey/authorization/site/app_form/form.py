"""The app form: parsing, and rendering with each fault beside its field."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.presets import AppKind, AppRules, Preset, kind_of, new_app
from valetkey.authorization.model.client import (
    DISCOURAGED,
    Client,
    Editor,
    Field,
    FieldType,
    GrantTypeName,
    ProfileName,
)
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES, OPENID
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    fields_of,
)
from valetkey.authorization.protocol.register.client_rules import MOST_REDIRECT_URIS
from valetkey.authorization.protocol.register.faults import SENTENCES, MetadataError, Values
from valetkey.kernel.replace import replace
from valetkey.web.body import Form

_PLACES = MappingProxyType({"grant_types": "profile", "default_scopes": "scopes"})
_KNOWN = frozenset(each.name for each in fields_of(Editor.DEVELOPER))


class Sentence(Struct, frozen=True):
    """A sentence, marked for translation, and the values that fill it; without any, it is whole."""

    text: str
    values: Values = field(default_factory=dict[str, str])


def sentence(fault: MetadataError) -> Sentence:
    """Return the sentence of a fault; its text for programs if its code has none."""
    if fault.code in SENTENCES:
        return Sentence(SENTENCES[fault.code], fault.values)
    return Sentence(fault.detail)


def by_field(faults: Iterable[MetadataError]) -> Mapping[str, Sentence]:
    """Return the first sentence of each field; what belongs to no field is under `form`.

    That is left out while a field is invalid: it may follow from the field, as a preset's sign-out
    address follows from the redirect URI.
    A redirect URI is `redirect_uris/0`, counted among those that were typed.
    """
    found: dict[str, Sentence] = {}
    for each in faults:
        start, slash, number = each.field.partition("/")
        start = _PLACES.get(start, start)
        if start not in _KNOWN:
            start = "form"
        place = f"{start}/{number}" if start == "redirect_uris" and slash else start
        found.setdefault(place, sentence(each))
    if len(found) > 1:
        found.pop("form", None)
    return found


_TEXTS = tuple(
    each
    for each in fields_of(Editor.DEVELOPER)
    if each.rule.kind in {FieldType.LINE, FieldType.LINK}
)
_VERSIONED = (*fields_of(Editor.DEVELOPER), FIELDS["grant_types"])
_VERSION = re.compile(rf"[0-9a-f]{{8}}(?:\.[0-9a-f]{{8}}){{{len(_VERSIONED) - 1}}}")
_FIRST = ("name", "client_uri", "description")
_MORE = 2
"""Number of empty rows added by the button for more redirect URIs."""


class UriRow(Struct, frozen=True):
    """One redirect URI as typed; "" for an empty row."""

    value: str = ""
    fault: Sentence | None = None
    #: It was checked and can be registered.
    good: bool = False


class ScopeBox(Struct, frozen=True):
    """One scope with its sentence. `given`: only an administrator can assign it to an app."""

    name: str
    sentence: str
    chosen: bool = False
    given: bool = False

    @property
    def group(self) -> str:
        """The group of the scope: `identity`, or its name before the colon; "" for none."""
        if self.name in IDENTITY_SCOPES:
            return "identity"
        return self.name.rpartition(":")[0]


class GrantBox(Struct, frozen=True):
    """The check box of a grant type. `confidential`: only apps with a secret can have it."""

    field: str
    label: str
    hint: str
    chosen: bool = False
    confidential: bool = False


class TextInput(Struct, frozen=True):
    """One line of the form: a field with its value. `kind` is line or link."""

    name: str
    kind: str
    label: str
    hint: str
    value: str
    longest: int
    required: bool


class AppForm(Struct, frozen=True):
    """The app form as it is shown.

    `faults` has a sentence for each field that has one.
    """

    app: ClientMetadata
    kind: AppKind
    redirect_uris: tuple[UriRow, ...] = ()
    scopes: tuple[ScopeBox, ...] = ()
    #: Grant types that this server lets an app of the portal have, beside that of its kind.
    grants: tuple[GrantBox, ...] = ()
    faults: Mapping[str, Sentence] = field(default_factory=dict[str, Sentence])
    #: The redirect URIs were checked, and nothing was saved.
    checked: bool = False

    def fault(self, name: str) -> Sentence | None:
        """Return the fault of this field; None for none."""
        return self.faults.get(name)

    @property
    def has_users(self) -> bool:
        """Whether users sign in to the app and are redirected to it."""
        return self.kind is not AppKind.MACHINE

    @property
    def texts(self) -> tuple[TextInput, ...]:
        """The first inputs: name, website and description."""
        return tuple(_input(FIELDS[name], self.app) for name in _FIRST)

    @property
    def links(self) -> tuple[TextInput, ...]:
        """The one-line inputs of the other fields."""
        return tuple(_input(each, self.app) for each in _TEXTS if each.name not in _FIRST)

    @property
    def is_advanced_wrong(self) -> bool:
        """Whether any of the advanced options is invalid."""
        return bool(self.faults.keys() - {"form", "redirect_uris", "scopes", "profile", *_FIRST})

    @property
    def is_legacy(self) -> bool:
        """Whether a legacy option is set or invalid: Classic, optional PKCE, a legacy grant."""
        return (
            self.app.profile == ProfileName.CLASSIC
            or (self.kind is AppKind.SERVER and not self.app.requires_pkce)
            or any(name in DISCOURAGED for name in self.app.grant_types)
            or "profile" in self.faults
        )

    @property
    def has_groups(self) -> bool:
        """Whether the scopes belong to more than one group."""
        return len({box.group for box in self.scopes}) > 1

    @property
    def is_wrong(self) -> bool:
        """Whether any field is invalid."""
        return bool(self.faults) or any(row.fault for row in self.redirect_uris)


class AppForms(Struct, frozen=True):
    """Parse and render the form; `scopes` describes each scope that can be requested."""

    rules: AppRules
    scopes: Mapping[str, str]

    def new(self, kind: AppKind, preset: Preset | None = None) -> ClientMetadata:
        """Return the metadata of a new app before anything was typed."""
        profile, allowed = (
            self.rules.default_profile,
            self.rules.grant_types,
        )
        if preset is not None:
            return preset.metadata(profile=profile, allowed=allowed)
        app = new_app(kind, profile, allowed)
        return app if kind is AppKind.MACHINE else replace(app, scopes=(OPENID,))

    def read(self, form: Form, before: ClientMetadata) -> ClientMetadata:
        """Return the metadata in the form; a field that is not in the form keeps its value."""
        kind = kind_of(before)
        values: dict[str, object] = {each.name: _text(form, each.name) for each in _TEXTS}
        values["profile"] = _text(form, "profile") or before.profile
        values["requires_pkce"] = kind is not AppKind.MACHINE and (
            _flag(form, "requires_pkce") if kind is AppKind.SERVER else before.requires_pkce
        )
        if kind is AppKind.MACHINE:
            return self.rules.edited(before, values, {GrantTypeName.CLIENT_CREDENTIALS.value})
        values["redirect_uris"] = _typed_uris(form)
        values["scopes"] = self._chosen(form, before)
        rules = self.rules.registrar.rules.grant_types
        grants = {
            name
            for name, option in self.rules.options.items()
            if _flag(form, option.field)
            and (kind is AppKind.SERVER or not rules[name].needs_secret)
        }
        grants.add(GrantTypeName.AUTHORIZATION_CODE.value)
        return self.rules.edited(before, values, grants)

    def shown(
        self,
        app: ClientMetadata,
        kind: AppKind,
        *,
        before: Client | None = None,
        faults: Iterable[MetadataError] = (),
        more: bool = False,
        checked: bool = False,
    ) -> AppForm:
        """Return the form of this app, with each fault beside its field."""
        told = by_field(faults)
        rows = [
            UriRow(
                uri,
                told.get(f"redirect_uris/{number}"),
                good=checked and f"redirect_uris/{number}" not in told,
            )
            for number, uri in enumerate(app.redirect_uris)
        ]
        empty = 1 + more * _MORE
        rows += [UriRow()] * min(empty, max(0, MOST_REDIRECT_URIS - len(rows)))
        had = before.grant_types if before is not None else frozenset[str]()
        allowed = {*self.rules.grant_types, *had}
        return AppForm(
            app,
            kind,
            redirect_uris=tuple(rows),
            scopes=tuple(self._boxes(app, before)),
            grants=tuple(self._grants(app, allowed)),
            faults={name: text for name, text in told.items() if "/" not in name},
            checked=checked and not any(name.startswith("redirect_uris") for name in told),
        )

    def submitted_button(
        self, form: Form, app: ClientMetadata, kind: AppKind, before: Client | None = None
    ) -> AppForm | None:
        """Return the form after a button that saves nothing; None for the button that saves.

        `check` judges the redirect URIs, `more` adds rows for them.
        """
        match form.get("do"):
            case "check":
                faults = _about_uris(self.rules.faults(app))
                return self.shown(app, kind, before=before, faults=faults, checked=True)
            case "more":
                return self.shown(app, kind, before=before, more=True)
            case _:
                return None

    def _chosen(self, form: Form, before: ClientMetadata) -> tuple[str, ...]:
        """Return the scopes that are ticked, and those that have no box."""
        hidden = tuple(name for name in before.scopes if name not in self.scopes)
        ticked = tuple(n.removeprefix("scope:") for n in form.names if n.startswith("scope:"))
        # In the order of their declaration, not in that of the request.
        known = tuple(name for name in self.scopes if name in ticked)
        odd = tuple(name for name in ticked if name not in self.scopes)
        return (*known, *odd, *hidden)

    def _grants(self, app: ClientMetadata, allowed: Collection[str]) -> Iterable[GrantBox]:
        rules = self.rules.registrar.rules.grant_types
        for name, option in self.rules.options.items():
            # It is what users sign in with, so the kind of the app implies it.
            if name in allowed and name != GrantTypeName.AUTHORIZATION_CODE:
                yield GrantBox(
                    option.field,
                    option.label,
                    option.hint,
                    chosen=name in app.grant_types,
                    confidential=rules[name].needs_secret,
                )

    def _boxes(self, app: ClientMetadata, before: Client | None) -> Iterable[ScopeBox]:
        offered = self.rules.scopes
        boxes = (
            ScopeBox(name, said, chosen=name in app.scopes, given=name not in offered)
            for name, said in self.scopes.items()
            if name in offered or (before is not None and name in before.scope)
        )
        # Scopes of one group together, groups in the order of their first scopes.
        groups: dict[str, list[ScopeBox]] = {"identity": []}
        for box in boxes:
            groups.setdefault(box.group, []).append(box)
        return (box for group in groups.values() for box in group)


def version_of(client: Client) -> str:
    """Return the version of the app in its form, for optimistic locking.

    It is a short digest of each field that the form can change.
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
        field.rule.label: hashlib.sha256(repr(field.of(metadata)).encode()).hexdigest()[:8]
        for field in _VERSIONED
    }


def _input(each: Field, app: ClientMetadata) -> TextInput:
    rule = each.rule
    return TextInput(
        each.name,
        rule.kind.name.lower(),
        rule.label,
        rule.hint,
        each.of(app),
        rule.longest,
        rule.shortest > 0,
    )


def _typed_uris(form: Form) -> tuple[str, ...]:
    """Return the redirect URIs in the order of their rows, without the empty ones."""
    # One row more than can be registered, so that one too many is reported and not dropped.
    rows = (_text(form, f"redirect_uri_{number}") for number in range(MOST_REDIRECT_URIS + 1))
    return tuple(row for row in rows if row)


def _about_uris(faults: Iterable[MetadataError]) -> tuple[MetadataError, ...]:
    return tuple(fault for fault in faults if fault.field.partition("/")[0] == "redirect_uris")


def _text(form: Form, name: str) -> str:
    return (form.get(name) or "").strip()


def _flag(form: Form, name: str) -> bool:
    return form.get(name) == "yes"
