"""/developer/new: register an app."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults
from valetkey.authorization.actions.developer.portal import (
    Portal,
    RegistrationBarrier,
)
from valetkey.authorization.actions.developer.presets import (
    ConfigurationFile,
    Preset,
    kind_of,
    presets_of,
)
from valetkey.authorization.actions.developer.team import OwnApp, find_own
from valetkey.authorization.layout.addresses import NEW_APP
from valetkey.authorization.model.register.client import BY_SECRET, Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.app_form.form import AppForm, AppForms
from valetkey.authorization.site.app_form.registration import (
    ChooseKindPage,
    NewAppPage,
    NewIds,
    RegisteredPage,
    kind_in,
    preset_in,
)
from valetkey.authorization.site.developer.app import AppHead, head_of
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.kernel.words import translatable

_UNPROCESSABLE = 422


class RegisterApp(Struct, frozen=True):
    """Ask for the kind of app, then for its form, then show what it needs to start."""

    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]
    scopes: Mapping[str, str]
    issuer: str
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        act, title = Act(self.submit), translatable("Register an app")
        return (Page(NEW_APP, signed_in, self.show, act, title=title, nav=True),)

    @property
    def _ids(self) -> NewIds:
        return NewIds(self.keyring, self.random)

    @property
    def forms(self) -> AppForms:
        """Return the parser and renderer of the form."""
        return AppForms(self.portal, self.scopes)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the kinds of apps, or the form of one."""
        user = request.user
        barrier = await self.store.read(lambda tx: self.portal.barrier(tx, user))
        kind = kind_in(request.query, self.portal)
        if barrier is not None or kind is None:
            return self._choose(barrier)
        preset = preset_in(request.query, kind)
        form = self.forms.shown(self.forms.new(kind, preset), kind)
        return self._form(request, form, self._ids.fresh(), preset)

    async def submit(self, request: SignedInRequest) -> Outcome:
        """Register the app, or show its faults; other buttons only validate or add rows."""
        form = request.form
        kind, client_id = kind_in(form, self.portal), form.get("client_id") or ""
        if kind is None or not self._ids.is_own(request.session.id, form):
            return SeeOther(NEW_APP)
        preset = preset_in(form, kind)
        app = self.forms.read(form, self.forms.new(kind, preset))
        if preset is not None:
            app = preset.completed(app)
        if shown := self.forms.pressed(form, app, kind):
            return self._form(request, shown, client_id, preset)
        return await self._register(request, app, client_id, preset)

    async def _register(
        self, request: SignedInRequest, app: ClientMetadata, client_id: str, preset: Preset | None
    ) -> Outcome:
        user, now = request.user, request.now
        secret = None
        if app.proof in BY_SECRET:
            secret = fresh_secret(Prefix.CLIENT_SECRET, self.random)

        def register(tx: Transaction) -> OwnApp | Faults | RegistrationBarrier | None:
            if find_own(tx, client_id, user.uid) is not None:
                return None
            made = self.portal.register(tx, user, app, now, client_id=client_id, secret=secret)
            return find_own(tx, client_id, user.uid) if isinstance(made, Client) else made

        made = await self.store.write(register, done_by=request.actor)
        if made is None:
            # The same form again: a reload, or a second press. The secret was shown.
            return SeeOther(AppHead(client_id, "").at())
        if isinstance(made, RegistrationBarrier):
            return self._choose(made)
        if isinstance(made, tuple):
            shown = self.forms.shown(app, kind_of(app), faults=made)
            return self._form(request, shown, client_id, preset, _UNPROCESSABLE)
        shown_once = "" if secret is None else secret.reveal()
        files = () if preset is None else self._files(preset, app, client_id, shown_once)
        head = head_of(made)
        page = RegisteredPage(
            head.name, client_id, self.issuer, shown_once, head.at(), files, app=head
        )
        return Show(page)

    def _files(
        self, preset: Preset, app: ClientMetadata, client_id: str, secret: str
    ) -> tuple[ConfigurationFile, ...]:
        return preset.configuration(app, client_id, self.issuer, secret, self.random)

    def _choose(self, barrier: RegistrationBarrier | None) -> Show:
        return Show(
            ChooseKindPage(
                tuple(kind.value for kind in self.portal.kinds),
                {kind.value: presets_of(kind) for kind in self.portal.kinds},
                "" if barrier is None else barrier.value,
                self.portal.settings.apps_per_person,
            )
        )

    def _form(
        self,
        request: SignedInRequest,
        form: AppForm,
        client_id: str,
        preset: Preset | None,
        status: int = 200,
    ) -> Show:
        mark = self._ids.mark(request.session.id, client_id)
        return Show(NewAppPage(NEW_APP, request.csrf, client_id, mark, form, preset), status)
