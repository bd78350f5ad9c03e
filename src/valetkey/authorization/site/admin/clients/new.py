"""/admin/clients/new: register an app, with the presets and the form of the portal."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.clients import Faults
from valetkey.authorization.actions.developer.portal import CHOSEN_GRANTS, Portal
from valetkey.authorization.actions.developer.presets import Preset, kind_of, presets_of
from valetkey.authorization.operations.client_records import ClientMade, LocalRegistration
from valetkey.authorization.operations.clients import REGISTER
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.clients.clients import CLIENTS, NEW, client_address
from valetkey.authorization.site.app_form.form import AppForm, AppForms
from valetkey.authorization.site.app_form.registration import (
    ChooseKindPage,
    NewAppPage,
    NewIds,
    RegisteredPage,
    kind_in,
    preset_in,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable

_FRAME = "admin/frame.html"
_BAD_REQUEST = 400


class NewClient(Struct, frozen=True):
    """Ask for the kind of app, then for its form, then show what it needs to start.

    `scopes` describes the scopes that users can be asked for.
    """

    services: Services
    ids: NewIds
    scopes: Mapping[str, str]
    issuer: str

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The page of this feature."""
        may, title = administrator(Permission.CLIENTS), translatable("Register an app")
        return (Page(NEW, may, self.show, Act(self.submit), title=title),)

    @property
    def _portal(self) -> Portal:
        """The rules of the form: every scope, and every grant type that this server has."""
        registrar = self.services.registrar("admin")
        grants = tuple(sorted(CHOSEN_GRANTS & registrar.rules.grant_types.keys()))
        settings = replace(self.services.settings.portal, grant_types=grants, scopes=())
        return Portal(registrar, settings, tuple(self.scopes), ())

    @property
    def _forms(self) -> AppForms:
        return AppForms(self._portal, self.scopes)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the kinds of apps, or the form of one."""
        portal, forms = self._portal, self._forms
        kind = kind_in(request.query, portal)
        if kind is None:
            kinds = tuple(each.value for each in portal.kinds)
            presets = {each.value: presets_of(each) for each in portal.kinds}
            return Show(ChooseKindPage(kinds, presets, action=NEW, frame=_FRAME))
        preset = preset_in(request.query, kind)
        form = forms.shown(forms.new(kind, preset), kind)
        return self._form(request, form, self.ids.fresh(), preset)

    async def submit(self, request: AdminRequest) -> Outcome:
        """Register the app, or show its faults; other buttons only validate or add rows."""
        form, forms = request.form, self._forms
        kind, client_id = kind_in(form, self._portal), form.get("client_id") or ""
        if kind is None or not self.ids.is_own(request.actor.session_id, form):
            return SeeOther(NEW)
        preset = preset_in(form, kind)
        app = forms.read(form, forms.new(kind, preset))
        if preset is not None:
            app = preset.completed(app)
        if shown := forms.pressed(form, app, kind):
            return self._form(request, shown, client_id, preset)
        return await self._register(request, app, client_id, preset)

    async def _register(
        self, request: AdminRequest, app: ClientMetadata, client_id: str, preset: Preset | None
    ) -> Outcome:
        body, url = LocalRegistration(app, client_id), client_address(client_id)
        # The same form again: a reload, or a second press. The secret was shown.
        if await self.services.store.read(lambda tx: tx.clients.find(client_id)) is not None:
            return SeeOther(url)
        call = call_of(self.services, REGISTER, request.actor, request.now, body=body)
        try:
            made = await value_of(call, ClientMade)
        except InvalidInput as invalid:
            return self._faulty(request, app, client_id, preset, invalid.faults)
        secret = str(getattr(made, "client_secret", None) or "")
        files = (
            ()
            if preset is None
            else preset.configuration(app, client_id, self.issuer, secret, self.services.random)
        )
        page = RegisteredPage(app.name, client_id, self.issuer, secret, url, files, _FRAME)
        return Show(page)

    def _faulty(
        self,
        request: AdminRequest,
        app: ClientMetadata,
        client_id: str,
        preset: Preset | None,
        faults: Faults,
    ) -> Outcome:
        if any(fault.field == "client_id" for fault in faults):
            return SeeOther(client_address(client_id))
        form = self._forms.shown(app, kind_of(app), faults=faults)
        return self._form(request, form, client_id, preset, _BAD_REQUEST)

    def _form(
        self,
        request: AdminRequest,
        form: AppForm,
        client_id: str,
        preset: Preset | None,
        status: int = 200,
    ) -> Show:
        mark = self.ids.mark(request.actor.session_id, client_id)
        page = NewAppPage(
            NEW, request.csrf, client_id, mark, form, preset, back=CLIENTS, frame=_FRAME
        )
        return Show(page, status)
