"""/admin/clients/new, /{client_id}/edit and /owners: register and edit an app, add an owner."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import search
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.presets import AppRules, kind_of
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.client_records import (
    ClientMade,
    LocalRegistration,
    shown,
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
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.client_rules import offered_to_developers
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.clients.app_form import (
    APP_CHOICES,
    APP_GROUPS,
    APP_STATES,
    APP_WORDS,
    VERIFIED,
    AppFields,
)
from valetkey.authorization.site.admin.clients.client import named, secret_page
from valetkey.authorization.site.admin.clients.clients import NEW, client_address
from valetkey.authorization.site.admin.clients.registration import (
    REGISTER_BUTTON,
    AppRegistration,
    NewApp,
    NewIds,
    Registration,
)
from valetkey.authorization.site.admin.confirm import done_word
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.references import (
    APPS,
    GROUPS,
    References,
    apis,
    suggestions,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

EDIT = "/admin/clients/{client_id}/edit"
OWNERS = "/admin/clients/{client_id}/owners"

_LONGEST = 200


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
            APP_WORDS,
            translatable("Edit app"),
            self._edited,
            self._changed,
            choices=APP_CHOICES,
            groups=APP_GROUPS,
            states=APP_STATES,
            durations=("access_token_lifetime",),
            references=self._references(),
        )
        registration = AppRegistration(
            NEW,
            "admin/frame.html",
            self._fields,
            replace(edit.fields, submit=REGISTER_BUTTON),
            self.ids,
            self.issuer,
            lambda request: request.actor.session_id,
            self._denial,
            self._register,
        )
        return (
            registration.page(administrator(Permission.CLIENTS)),
            edit.page(),
            Page(OWNERS, administrator(Permission.CLIENTS), act=Act(self.add_owner)),
        )

    def _fields(self) -> AppFields:
        """Return the fields of every app: every scope, and every grant type of this server."""
        registrar = self.services.registrar("admin")
        grants = offered_to_developers(registrar.rules.grant_types)
        profile = self.services.developers.default_profile
        return AppFields(AppRules(registrar, tuple(self.scopes), grants, profile), self.scopes)

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
        address, kind = client_address(client.id), kind_of(client)
        return replace(
            self._fields().subject(metadata, kind, address, client.name or client.id),
            etag=tag_of(shown(client, now)),
            note=VERIFIED if client.verified_at is not None else "",
        )

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
        result = await ADD_OWNER.run(call)
        return SeeOther(f"{address}?done={done_word('owner', result.value)}")
