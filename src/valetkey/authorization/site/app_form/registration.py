"""Pages that register an app: choose its kind, fill in its form, see its credentials."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults
from valetkey.authorization.actions.presets import (
    PRESET_GROUPS,
    PRESETS,
    AppKind,
    AppRules,
    ConfigurationFile,
    Preset,
    RegistrationDenial,
    fresh_client_id,
    kind_of,
    presets_of,
)
from valetkey.authorization.layout.addresses import DEVELOPER, NEW_APP
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.app_form.form import AppForm, AppForms
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    Requirement,
    SeeOther,
    Show,
    VisitorRequest,
)
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import same
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

_CLIENT_ID = re.compile(r"app_[A-Za-z0-9_-]{22}", re.ASCII)

R = TypeVar("R", bound=VisitorRequest)


class ChooseKindPage(Struct, frozen=True):
    """Choose the kind of app. Context of choose_kind.html, here and in the console.

    `denial` says why the user may not register an app: closed, unverified, uninvited, full.
    """

    template: ClassVar[str] = "app_form/choose_kind.html"

    #: The template of the area.
    frame: str
    kinds: tuple[str, ...]
    #: The presets of each of these kinds.
    presets: Mapping[str, tuple[Preset, ...]]
    denial: str = ""
    most: int = 0
    action: str = NEW_APP
    groups: tuple[str, ...] = PRESET_GROUPS


class NewAppPage(Struct, frozen=True):
    """The context of new.html. Its form posts `csrf`, `client_id`, its `mark`, and the fields."""

    template: ClassVar[str] = "app_form/new.html"
    scripts: ClassVar[tuple[str, ...]] = ("filter.js",)

    #: The template of the area.
    frame: str
    action: str
    client_id: str
    mark: str
    form: AppForm
    #: The chosen preset; None if only the kind was chosen.
    preset: Preset | None = None
    back: str = DEVELOPER


class RegisteredPage(Struct, frozen=True):
    """The context of registered.html; `secret` is shown once, "" if the app has none."""

    template: ClassVar[str] = "app_form/registered.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    #: The template of the area.
    frame: str
    name: str
    client_id: str
    issuer: str
    secret: str
    #: The page of the app.
    url: str
    #: The configuration for the chosen preset.
    files: tuple[ConfigurationFile, ...] = ()
    #: The app that the pages of the area are about, if any.
    app: object = None


class NewApp(Struct, frozen=True):
    """A new app: its page, and its secret, "" if it has none; `head` is `app` in templates."""

    name: str
    url: str
    secret: str
    head: object = None


Registration = NewApp | Faults | RegistrationDenial | SeeOther
"""The result of a registration; a repeated submit is a redirect to the app."""


class NewIds(Struct, frozen=True):
    """Client ids generated for a form, each of which can be registered once."""

    keyring: Keyring
    random: Callable[[int], bytes]

    def fresh(self) -> str:
        """Return a client id for a form."""
        return fresh_client_id(self.random)

    def mark(self, session_id: str, client_id: str) -> str:
        """Return the mark that the form of this session posts with its client id."""
        return self.keyring.fingerprint_key.of("new app", f"{session_id} {client_id}")

    def is_own(self, session_id: str, said: Form) -> bool:
        """Return whether this server generated the id: a chosen one could imitate another app's."""
        client_id, mark = said.get("client_id") or "", said.get("mark") or ""
        generated = _CLIENT_ID.fullmatch(client_id) is not None
        return generated and same(mark, self.mark(session_id, client_id))


class Draft(Struct, frozen=True):
    """An app that is being registered: its metadata so far, and what was chosen before."""

    app: ClientMetadata
    kind: AppKind
    client_id: str
    preset: Preset | None = None

    def completed(self, app: ClientMetadata) -> ClientMetadata:
        """Return the metadata with what follows from the preset."""
        return app if self.preset is None else self.preset.completed(app)


class AppRegistration(Struct, Generic[R], frozen=True):
    """The page that registers an app: its kind, its form, its credentials.

    `scopes` describes the scopes that users can be asked for. `denial` is why a user may not
    register an app, and `register` does it. Faults of the form have the `fault_status`.
    """

    path: str
    frame: str
    back: str
    rules: Callable[[], AppRules]
    ids: NewIds
    scopes: Mapping[str, str]
    issuer: str
    session_id: Callable[[R], str]
    denial: Callable[[R], Awaitable[RegistrationDenial | None]]
    register: Callable[[R, ClientMetadata, str], Awaitable[Registration]]
    fault_status: int

    def page(self, requires: Requirement[R], *, nav: bool = False) -> Page[R]:
        """Return the page."""
        act, title = Act(self.submit), translatable("Register an app")
        docs = "how-to/apps/register-a-client.html"
        return Page(self.path, requires, self.show, act, title=title, nav=nav, docs=docs)

    @property
    def _forms(self) -> AppForms:
        return AppForms(self.rules(), self.scopes)

    async def show(self, request: R) -> Outcome:
        """Show the kinds of apps, or the form of one."""
        forms, denial = self._forms, await self.denial(request)
        kind = kind_in(request.query, forms.rules)
        if denial is not None or kind is None:
            return self._choose(denial)
        preset = preset_in(request.query, kind)
        draft = Draft(forms.new(kind, preset), kind, self.ids.fresh(), preset)
        return await self.draw(request, draft)

    async def submit(self, request: R) -> Outcome:
        """Register the app, or show its faults; other buttons only validate or add rows."""
        form, forms = request.form, self._forms
        kind, client_id = kind_in(form, forms.rules), form.get("client_id") or ""
        if kind is None or not self.ids.is_own(self.session_id(request), form):
            return SeeOther(self.path)
        preset = preset_in(form, kind)
        draft = Draft(forms.new(kind, preset), kind, client_id, preset)
        app = await self.read(request, draft)
        if isinstance(app, Show):
            return app
        made = await self.register(request, app, client_id)
        match made:
            case SeeOther():
                return made
            case RegistrationDenial():
                return self._choose(made)
            case NewApp():
                return self._registered(made, app, client_id, preset)
            case faults:
                return await self.draw(request, replace(draft, app=app), faults)

    async def read(self, request: R, draft: Draft) -> ClientMetadata | Show:
        """Return the metadata in the form, or the form again after a button that saves nothing."""
        forms = self._forms
        app = draft.completed(forms.read(request.form, draft.app))
        shown = forms.submitted_button(request.form, app, draft.kind)
        return app if shown is None else self._form(request, shown, draft)

    async def draw(self, request: R, draft: Draft, faults: Faults = ()) -> Show:
        """Return the form of the app, with each fault beside its field."""
        kind = kind_of(draft.app) if faults else draft.kind
        shown = self._forms.shown(draft.app, kind, faults=faults)
        return self._form(request, shown, draft, self.fault_status if faults else 200)

    def _registered(
        self, made: NewApp, app: ClientMetadata, client_id: str, preset: Preset | None
    ) -> Show:
        issuer, secret, files = self.issuer, made.secret, tuple[ConfigurationFile, ...]()
        if preset is not None:
            files = preset.configuration(app, client_id, issuer, secret, self.ids.random)
        page = RegisteredPage(
            self.frame, made.name, client_id, issuer, secret, made.url, files, made.head
        )
        return Show(page)

    def _choose(self, denial: RegistrationDenial | None) -> Show:
        rules = self.rules()
        page = ChooseKindPage(
            self.frame,
            tuple(kind.value for kind in rules.kinds),
            {kind.value: presets_of(kind) for kind in rules.kinds},
            "" if denial is None else denial.value,
            rules.most,
            self.path,
        )
        return Show(page)

    def _form(self, request: R, form: AppForm, draft: Draft, status: int = 200) -> Show:
        mark = self.ids.mark(self.session_id(request), draft.client_id)
        page = NewAppPage(
            self.frame, self.path, draft.client_id, mark, form, draft.preset, self.back
        )
        return Show(page, status)


def kind_in(said: Form, rules: AppRules) -> AppKind | None:
    """Return the chosen kind of app; None if it cannot be registered."""
    return next((kind for kind in rules.kinds if kind == said.get("kind")), None)


def preset_in(said: Form, kind: AppKind) -> Preset | None:
    """Return the chosen preset; None unless it is one of this kind."""
    found = PRESETS.get(said.get("preset") or "")
    return found if found is not None and found.kind is kind else None
