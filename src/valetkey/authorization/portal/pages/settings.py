"""/developer/new and /settings: register an app, change it, and remove a legacy grant type."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults, metadata_of
from valetkey.authorization.actions.developer.portal import (
    Portal,
    RegistrationDenial,
)
from valetkey.authorization.actions.developer.presets import (
    AppKind,
    kind_of,
)
from valetkey.authorization.actions.developer.team import TeamApp, find_own
from valetkey.authorization.layout.addresses import DEVELOPER, NEW_APP
from valetkey.authorization.model.client import DISCOURAGED, Client, GrantTypeName, is_by_secret
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.app_form.form import (
    AppForm,
    AppForms,
    changed_since,
    version_of,
)
from valetkey.authorization.site.app_form.registration import (
    AppRegistration,
    NewApp,
    NewIds,
    Registration,
)
from valetkey.authorization.site.developer.app import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    head_of,
    member_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import minutes
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.kernel.words import translatable
from valetkey.web.body import Form

_UNPROCESSABLE, _OUTDATED = 422, 409
_RECENT = minutes(5)
_DOCS = "reference/client-fields.html"


class LegacySwitch(Struct, frozen=True):
    """A legacy grant: `name` is implicit or password."""

    name: str
    on: bool


class SettingsPage(Struct, frozen=True):
    """The context of settings.html. Its form posts `csrf`, `version`, and the fields.

    `others` are the labels of the fields that another member changed after the form was opened.
    """

    template: ClassVar[str] = "developer/settings.html"
    scripts: ClassVar[tuple[str, ...]] = ("filter.js",)

    app: AppHead
    action: str
    version: str
    form: AppForm
    legacy: tuple[LegacySwitch, ...] = ()
    saved: bool = False
    #: The app is verified; changing how users see it ends that.
    verified: bool = False
    others: tuple[str, ...] = ()


class DropGrantTypePage(Struct, frozen=True):
    """The context of drop_grant_type.html. Its form posts `csrf` and `grant_type`."""

    template: ClassVar[str] = "developer/drop_grant_type.html"

    app: AppHead
    action: str
    grant_type: str


class _Outdated(Struct, frozen=True):
    """Faults of a save: the app was changed after the form was opened."""

    app: TeamApp
    parts: tuple[str, ...]


class Settings(Struct, frozen=True):
    """Change the settings of an app."""

    store: Store
    scopes: Mapping[str, str]
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, save, drop = translatable("Settings"), Act(self.save), Act(self.drop)
        path, legacy = f"{APP}/settings", f"{APP}/legacy"
        return (
            Page(path, member_of_app, self.show, save, title=title, nav=CONFIGURATION, docs=_DOCS),
            Page(legacy, member_of_app, self.ask_to_drop, drop, title=title, under=path),
        )

    @property
    def forms(self) -> AppForms:
        """Return the parser and renderer of the form."""
        return AppForms(self.portal, self.scopes)

    async def show(self, request: AppRequest) -> Outcome:
        """Show the form with the current settings of the app."""
        client = request.client
        saved = client.changed_at > request.now - _RECENT and "saved" in request.query
        form = self.forms.shown(metadata_of(client), kind_of(client), before=client)
        return _form(request, request.app, form, saved=saved)

    async def save(self, request: AppRequest) -> Outcome:
        """Save the app, or show its faults; other buttons only validate or add rows."""
        client, form, uid, now = request.client, request.form, request.user.uid, request.now
        kind, app = kind_of(client), self.forms.read(form, metadata_of(client))
        version = form.get("version") or ""
        if shown := self.forms.submitted_button(form, app, kind, client):
            return _form(request, request.app, shown, version=version)

        def change(tx: Transaction) -> Client | Faults | _Outdated | None:
            held = tx.clients.find_to_change(client.id)
            current = None if held is None else find_own(tx, client.id, uid)
            if current is None:
                return None
            if parts := changed_since(current.client, version):
                return _Outdated(current, parts)
            # Read again: what the form does not hold may have changed.
            wanted = self.forms.read(form, metadata_of(current.client))
            return self.portal.change(tx, current.client, wanted, now)

        done = await self.store.write(change, done_by=request.actor)
        if done is None:
            raise not_found("app")
        if isinstance(done, _Outdated):
            shown = self.forms.shown(app, kind, before=done.app.client)
            return _form(request, done.app, shown, _OUTDATED, others=done.parts)
        if isinstance(done, tuple):
            shown = self.forms.shown(app, kind, before=client, faults=done)
            return _form(request, request.app, shown, _UNPROCESSABLE, version=version)
        return SeeOther(f"{request.head.at('settings')}?saved=1")

    async def ask_to_drop(self, request: AppRequest) -> Outcome:
        """Ask before a legacy grant type is removed."""
        name, head = _legacy(request.client, request.query), request.head
        return Show(DropGrantTypePage(head, head.at("legacy"), name.value))

    async def drop(self, request: AppRequest) -> Outcome:
        """Remove the legacy grant type."""
        client, uid, now = request.client, request.user.uid, request.now
        name = _legacy(client, request.form)

        def drop_grant_type(tx: Transaction) -> Client | Faults | None:
            held = tx.clients.find_to_change(client.id)
            if held is None or tx.members.find(held.id, uid) is None:
                return None
            return self.portal.drop_grant_type(tx, held, name, now)

        done = await self.store.write(drop_grant_type, done_by=request.actor)
        if done is None:
            raise not_found("app")
        if isinstance(done, tuple):
            # It is the only grant type of the app: another has to be chosen first.
            shown = self.forms.shown(
                metadata_of(client), kind_of(client), before=client, faults=done
            )
            return _form(request, request.app, shown, _UNPROCESSABLE)
        return SeeOther(f"{request.head.at('settings')}?saved=1")


def _form(
    request: AppRequest,
    app: TeamApp,
    form: AppForm,
    status: int = 200,
    *,
    version: str = "",
    saved: bool = False,
    others: tuple[str, ...] = (),
) -> Show:
    head = head_of(app)
    context = SettingsPage(
        app=head,
        action=head.at("settings"),
        version=version or version_of(app.client),
        form=form,
        legacy=tuple(_switches(app.client)),
        saved=saved,
        verified=app.client.verified_at is not None,
        others=others,
    )
    return Show(context, status)


def _legacy(client: Client, said: Form) -> GrantTypeName:
    """Return the named legacy grant type. Refused (not found) if the app does not have it."""
    for name in DISCOURAGED:
        if name == said.get("grant_type") and name in client.grant_types:
            return name
    raise not_found("app")


def _switches(client: Client) -> Iterator[LegacySwitch]:
    if kind_of(client) is not AppKind.MACHINE:
        for name in DISCOURAGED:
            if name is GrantTypeName.IMPLICIT or not client.is_public:
                yield LegacySwitch(name.value, on=client.may_use(name))


class RegisterApp(Struct, frozen=True):
    """Register an app that its user owns."""

    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]
    scopes: Mapping[str, str]
    issuer: str
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        registration = AppRegistration(
            NEW_APP,
            "developer/frame.html",
            DEVELOPER,
            lambda: self.portal,
            NewIds(self.keyring, self.random),
            self.scopes,
            self.issuer,
            lambda request: request.session.id,
            self._denial,
            self._register,
            fault_status=_UNPROCESSABLE,
        )
        return (registration.page(signed_in, nav=True),)

    async def _denial(self, request: SignedInRequest) -> RegistrationDenial | None:
        user = request.user
        return await self.store.read(lambda tx: self.portal.registration_denial(tx, user))

    async def _register(
        self, request: SignedInRequest, app: ClientMetadata, client_id: str
    ) -> Registration:
        user, now = request.user, request.now
        secret = None
        if is_by_secret(app.proof):
            secret = fresh_secret(Prefix.CLIENT_SECRET, self.random)

        def register(tx: Transaction) -> TeamApp | Faults | RegistrationDenial | None:
            if find_own(tx, client_id, user.uid) is not None:
                return None
            made = self.portal.register(tx, user, app, now, client_id=client_id, secret=secret)
            return find_own(tx, client_id, user.uid) if isinstance(made, Client) else made

        made = await self.store.write(register, done_by=request.actor)
        if made is None:
            # A repeated submit or a reload: the secret has been shown.
            return SeeOther(AppHead(client_id, "").at())
        if isinstance(made, TeamApp):
            head = head_of(made)
            return NewApp(head.name, head.at(), "" if secret is None else secret.reveal(), head)
        return made
