"""/admin/clients/new, /{client_id}/edit and /owners: register and edit an app, add an owner."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import search
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.actions.clients import Faults, metadata_of
from valetkey.authorization.actions.presets import AppKind, AppRules
from valetkey.authorization.model.client import (
    DISCOURAGED,
    RESOURCE_SERVER,
    AccessTokenFormat,
    ApplicationType,
    ClientType,
    Editor,
    Field,
    IdTokenClaims,
    ProfileName,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.client_records import (
    ClientChange,
    ClientMade,
    LocalRegistration,
    shown,
    with_changes,
)
from valetkey.authorization.operations.client_state import ADD_OWNER
from valetkey.authorization.operations.clients import CHANGE, REGISTER
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Services,
    call_of,
    tag_of,
    value_of,
)
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, fields_of
from valetkey.authorization.protocol.register.client_rules import form_options
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.clients.client import named, secret_page
from valetkey.authorization.site.admin.clients.clients import CLIENTS, NEW, client_address
from valetkey.authorization.site.admin.input_fields import (
    Choices,
    Words,
    as_text,
    typed,
)
from valetkey.authorization.site.admin.input_form import ON_TOP, FormSubject, InputForm, act_of
from valetkey.authorization.site.admin.references import (
    APPS,
    GROUPS,
    References,
    apis,
    suggestions,
)
from valetkey.authorization.site.app_form.registration import (
    AppRegistration,
    Draft,
    NewApp,
    NewIds,
    Registration,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

EDIT = "/admin/clients/{client_id}/edit"
OWNERS = "/admin/clients/{client_id}/owners"

_LONGEST = 200
_SIGN_IN = translatable("Sign-in and addresses")
_PERMISSIONS = translatable("Permissions")
_TOKENS = translatable("Tokens")
_SECURITY = translatable("Security")
_LINKS = translatable("Logo and links")
_NO_HINT = ""

# Of fields without a label in their rule, and hints for administrators.
_OWN: Words = {
    "redirect_uris": (_NO_HINT, translatable("The address must match exactly.")),
    "grant_types": (_NO_HINT, _NO_HINT),
    "scopes": (_NO_HINT, translatable("What the app may request.")),
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
EDIT_CHOICES: Mapping[str, Choices] = {
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
EDIT_STATES = {
    "redirect_uris": translatable("%(value)s redirect URIs"),
    "required_groups": translatable("%(value)s required groups"),
    "scopes": translatable("%(value)s scopes"),
    "access_token_format": translatable("Access tokens: %(value)s"),
    "access_token_lifetime": translatable("Access tokens last %(value)s"),
    "rotates_refresh_token": translatable("Refresh tokens rotate"),
    "ends_with_session": translatable("Access ends with the session"),
    "type": "%(value)s",
    "grant_types": translatable("%(value)s grant types"),
    "requires_pkce": translatable("PKCE is required"),
}
"""What the header of a closed section says of a value; of lists from two entries on."""

_FIELDS = {each.name: each for each in fields_of(Editor.ADMINISTRATOR)}


def _words(field: Field) -> tuple[str, str]:
    label, hint = _OWN.get(field.name, ("", ""))
    return field.rule.label or label or field.name, field.rule.hint or hint


EDIT_GROUPS = {name: title for title, names in _SECTIONS.items() for name in names}
EDIT_WORDS: Words = {name: _words(_FIELDS[name]) for name in EDIT_GROUPS}


_TITLES = {
    AppKind.SERVER: translatable("Register a web application"),
    AppKind.BROWSER: translatable("Register a single-page app"),
    AppKind.DEVICE: translatable("Register a mobile or desktop app"),
    AppKind.MACHINE: translatable("Register a service"),
}
_REGISTER = translatable("Register")
_MOST_BOXES = 40
"""Scopes that are check boxes; more are typed."""


class ConsoleRegistration(AppRegistration[AdminRequest], frozen=True):
    """The page that registers an app by the form that edits it."""

    form: InputForm[AdminRequest, msgspec.Struct]
    choices: Callable[[ClientMetadata], Mapping[str, Choices]]

    async def read(self, request: AdminRequest, draft: Draft) -> ClientMetadata | Show:
        """Return the metadata in the form, or the form again."""
        body = await self.form.submitted(request, self._subject(request, draft))
        if isinstance(body, Show):
            return body
        return draft.completed(with_changes(draft.app, body))

    async def draw(self, request: AdminRequest, draft: Draft, faults: Faults = ()) -> Show:
        """Return the form of the app, with each fault beside its field."""
        values = typed(request.form, EDIT_WORDS) if faults else None
        return await self.form.draw(request, self._subject(request, draft), values, faults)

    def _subject(self, request: AdminRequest, draft: Draft) -> FormSubject:
        preset = "" if draft.preset is None else draft.preset.name
        mark = self.ids.mark(self.session_id(request), draft.client_id)
        hidden = {"kind": draft.kind, "preset": preset, "client_id": draft.client_id, "mark": mark}
        return FormSubject(
            self.path,
            translatable("Register an app"),
            _texts(draft.app),
            title=_TITLES[draft.kind],
            choices=self.choices(draft.app),
            hidden=[(name, str(value)) for name, value in hidden.items() if value],
            opened=() if draft.kind is AppKind.MACHINE else ("redirect_uris", "scopes"),
        )


class ClientForms(Struct, frozen=True):
    """Register and edit apps by one form, which follows from their fields; add an owner.

    `scopes` describes the scopes that users can be asked for.
    """

    services: Services
    ids: NewIds
    scopes: Mapping[str, str]
    issuer: str

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return both forms, and the address of the one that adds an owner."""
        edit = InputForm(
            EDIT,
            administrator(Permission.CLIENTS, recent=True),
            actor_of,
            self.services,
            CHANGE,
            ClientMade,
            EDIT_WORDS,
            translatable("Edit app"),
            self._edited,
            self._changed,
            conflicts=ON_TOP,
            choices=EDIT_CHOICES,
            groups=EDIT_GROUPS,
            states=EDIT_STATES,
            durations=("access_token_lifetime",),
            references=self._references(),
        )
        registration = ConsoleRegistration(
            NEW,
            "admin/frame.html",
            CLIENTS,
            self._rules,
            self.ids,
            self.scopes,
            self.issuer,
            lambda request: request.actor.session_id,
            self._denial,
            self._register,
            400,
            replace(edit, submit=_REGISTER),
            self._choices,
        )
        new = registration.page(administrator(Permission.CLIENTS))
        return (
            replace(new, act=act_of(registration.submit, ClientChange, EDIT_WORDS)),
            edit.page(),
            Page(OWNERS, administrator(Permission.CLIENTS), act=Act(self.add_owner)),
        )

    def _rules(self) -> AppRules:
        """Return the rules of new apps: every scope, and every grant type of this server."""
        registrar = self.services.registrar("admin")
        grants = tuple(sorted(form_options(registrar.rules.grant_types)))
        return AppRules(
            registrar, tuple(self.scopes), grants, self.services.developers.default_profile
        )

    async def _denial(self, _request: AdminRequest) -> None:
        """Deny nothing: the requirement of the page has checked the role."""

    async def _register(
        self, request: AdminRequest, app: ClientMetadata, client_id: str
    ) -> Registration:
        body, url = LocalRegistration(app, client_id), client_address(client_id)
        # A repeated submit or a reload: the secret has been shown.
        if await self.services.store.read(lambda tx: tx.clients.find(client_id)) is not None:
            return SeeOther(url)
        call = call_of(self.services, REGISTER, request.actor, request.now, body=body)
        try:
            made = await value_of(call, ClientMade)
        except InvalidInput as invalid:
            taken = any(fault.field == "client_id" for fault in invalid.faults)
            return SeeOther(url) if taken else invalid.faults
        return NewApp(app.name, url, str(getattr(made, "client_secret", None) or ""))

    def _references(self) -> References:
        scopes = suggestions(lambda: self.services.registrar("admin").rules.scopes)
        return {
            "required_groups": GROUPS,
            "scopes": scopes,
            "default_scopes": scopes,
            "required_scopes": scopes,
            "exchanges_tokens_of": APPS,
            "exchanges_for": apis(self.services.claims.default.identifier),
        }

    async def _edited(self, request: AdminRequest) -> FormSubject:
        client_id, actor, now = named(request), request.actor, request.now
        if client_id == RESOURCE_SERVER:
            raise page_not_found()
        held = await self.services.store.scan(
            lambda tx: search.find_details(tx, actor, client_id, now)
        )
        client = held.client
        metadata = metadata_of(client)
        return FormSubject(
            client_address(client.id),
            client.name or client.id,
            _texts(metadata),
            tag_of(shown(client, now)),
            note=_VERIFIED if client.verified_at is not None else "",
            choices=self._choices(metadata),
        )

    def _choices(self, metadata: ClientMetadata) -> Mapping[str, Choices]:
        names = dict.fromkeys((*self.scopes, *metadata.scopes))
        boxes = {"scopes": tuple((it, self.scopes.get(it, it)) for it in names)}
        grants = {"grant_types": self._grant_types(metadata.grant_types)}
        return grants if len(names) > _MOST_BOXES else {**grants, **boxes}

    def _grant_types(self, had: Sequence[str] | frozenset[str]) -> Choices:
        # The legacy ones are enabled by an operation of their own.
        rules = self.services.registrar("admin").rules.grant_types
        names = [name for name in rules if name not in DISCOURAGED or name in had]
        names += sorted(set(had) - set(names))
        options = form_options(rules)
        return tuple((it, options[it].label if it in options else it) for it in names)

    async def _changed(self, request: AdminRequest, made: msgspec.Struct) -> Outcome:
        address = client_address(named(request))
        secret = getattr(made, "client_secret", None)
        if not secret:
            return SeeOther(f"{address}?done=edit")
        name = str(getattr(getattr(made, "record", None), "name", ""))
        page = secret_page(
            address, name or named(request), named(request), str(secret), others_end=False
        )
        return Show(page)

    async def add_owner(self, request: AdminRequest) -> Outcome:
        """Make the user that the text means an owner."""
        actor, text = request.actor, (request.form.get("person") or "").strip()[:_LONGEST]
        address = client_address(named(request))

        def find_users(tx: Transaction) -> Sequence[User]:
            require(tx, actor, Permission.CLIENTS)
            return resolve_users(tx, text)

        meant = await self.services.store.read(find_users)
        if len(meant) != 1:
            return SeeOther(f"{address}?done={'several' if meant else 'unknown'}#list-team")
        path = {"client_id": request.arguments["client_id"], "uid": str(meant[0].uid)}
        call = call_of(self.services, ADD_OWNER, actor, request.now, path)
        await ADD_OWNER.run(call)
        return SeeOther(f"{address}?done=owner")


_VERIFIED = translatable(
    "This app is verified. Changing its name, logo, policy links or redirect URIs removes the "
    "verification until it is reviewed again."
)


def _texts(metadata: ClientMetadata) -> Mapping[str, str]:
    return {name: _text(field.of(metadata)) for name, field in _FIELDS.items()}


def _text(value: object) -> str:
    return "\n".join(str(each) for each in value) if isinstance(value, tuple) else as_text(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
