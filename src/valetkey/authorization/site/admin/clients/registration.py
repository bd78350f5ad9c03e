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
    presets_of,
)
from valetkey.authorization.layout.addresses import NEW_APP
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.admin.clients.app_form import AppFields
from valetkey.authorization.site.admin.input_fields import typed
from valetkey.authorization.site.admin.input_form import FormFields, FormSubject
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

_TITLE = translatable("Register an app")
_TITLES = {
    AppKind.SERVER: translatable("Register a web application"),
    AppKind.BROWSER: translatable("Register a single-page app"),
    AppKind.DEVICE: translatable("Register a mobile or desktop app"),
    AppKind.MACHINE: translatable("Register a service"),
}
REGISTER_BUTTON = translatable("Register")


class ChooseKindPage(Struct, frozen=True):
    """Choose the kind of app. Context of choose_kind.html, here and in the console.

    `denial` says why the user may not register an app: closed, unverified, uninvited, full.
    """

    template: ClassVar[str] = "admin/clients/choose_kind.html"

    #: The template of the area.
    frame: str
    kinds: tuple[str, ...]
    #: The presets of each of these kinds.
    presets: Mapping[str, tuple[Preset, ...]]
    denial: str = ""
    most: int = 0
    action: str = NEW_APP
    groups: tuple[str, ...] = PRESET_GROUPS


class RegisteredPage(Struct, frozen=True):
    """The context of registered.html; `secret` is shown once, "" if the app has none."""

    template: ClassVar[str] = "admin/clients/registered.html"
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
        return self.keyring.fingerprint_key.fingerprint("new app", f"{session_id} {client_id}")

    def is_own(self, session_id: str, form: Form) -> bool:
        """Return whether this server generated the id: a chosen one could imitate another app's."""
        client_id, mark = form.get("client_id") or "", form.get("mark") or ""
        generated = _CLIENT_ID.fullmatch(client_id) is not None
        return generated and same(mark, self.mark(session_id, client_id))


class Draft(Struct, frozen=True):
    """An app that is being registered: its metadata so far, and what was chosen before."""

    app: ClientMetadata
    kind: AppKind
    client_id: str
    preset: Preset | None = None


class AppRegistration(Struct, Generic[R], frozen=True):
    """The page that registers an app: its kind, its form, its credentials.

    `denial` is why a user may not register an app, and `register` does it. `form` draws and reads
    the `fields`.
    """

    path: str
    frame: str
    fields: Callable[[], AppFields]
    form: FormFields
    ids: NewIds
    issuer: str
    session_id: Callable[[R], str]
    denial: Callable[[R], Awaitable[RegistrationDenial | None]]
    register: Callable[[R, ClientMetadata, str], Awaitable[Registration]]

    def page(self, requires: Requirement[R], *, nav: bool = False) -> Page[R]:
        """Return the page."""
        act: Act[R] = self.form.act(self.submit)
        docs = "how-to/apps/register-a-client.html"
        return Page(self.path, requires, self.show, act, title=_TITLE, nav=nav, docs=docs)

    async def show(self, request: R) -> Outcome:
        """Show the kinds of apps, or the form of one."""
        fields, denial = self.fields(), await self.denial(request)
        kind = kind_in(request.query, fields.rules)
        if denial is not None or kind is None:
            return self._choose(fields.rules, denial)
        preset = preset_in(request.query, kind)
        draft = Draft(fields.new(kind, preset), kind, self.ids.fresh(), preset)
        return await self.form.draw(request, self._subject(request, fields, draft))

    async def submit(self, request: R) -> Outcome:
        """Register the app, or show its faults; the buttons of lists register nothing."""
        form, fields = request.form, self.fields()
        kind, client_id = kind_in(form, fields.rules), form.get("client_id") or ""
        if kind is None or not self.ids.is_own(self.session_id(request), form):
            return SeeOther(self.path)
        preset = preset_in(form, kind)
        draft = Draft(fields.new(kind, preset), kind, client_id, preset)
        subject = self._subject(request, fields, draft)
        body = await self.form.submitted(request, subject)
        if isinstance(body, Show):
            return body
        app = fields.edited(draft.app, body)
        app = app if preset is None else preset.completed(app)
        made = await self.register(request, app, client_id)
        match made:
            case SeeOther():
                return made
            case RegistrationDenial():
                return self._choose(fields.rules, made)
            case NewApp():
                return self._registered(made, app, client_id, preset)
            case faults:
                values = typed(form, self.form.words)
                return await self.form.draw(request, subject, values, faults)

    def _subject(self, request: R, fields: AppFields, draft: Draft) -> FormSubject:
        preset = "" if draft.preset is None else draft.preset.name
        mark = self.ids.mark(self.session_id(request), draft.client_id)
        posted = {"kind": draft.kind, "preset": preset, "client_id": draft.client_id, "mark": mark}
        subject = fields.subject(draft.app, draft.kind, self.path, _TITLE)
        return replace(
            subject,
            title=_TITLES[draft.kind],
            frame=self.frame,
            hidden=(*subject.hidden, *((it, str(text)) for it, text in posted.items() if text)),
            opened=() if draft.kind is AppKind.MACHINE else ("redirect_uris", "scopes"),
        )

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

    def _choose(self, rules: AppRules, denial: RegistrationDenial | None) -> Show:
        page = ChooseKindPage(
            self.frame,
            tuple(kind.value for kind in rules.kinds),
            {kind.value: presets_of(kind) for kind in rules.kinds},
            "" if denial is None else denial.value,
            rules.most,
            self.path,
        )
        return Show(page)


def kind_in(form: Form, rules: AppRules) -> AppKind | None:
    """Return the chosen kind of app; None if it cannot be registered."""
    return next((kind for kind in rules.kinds if kind == form.get("kind")), None)


def preset_in(form: Form, kind: AppKind) -> Preset | None:
    """Return the chosen preset; None unless it is one of this kind."""
    preset = PRESETS.get(form.get("preset") or "")
    return preset if preset is not None and preset.kind is kind else None
