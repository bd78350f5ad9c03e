"""Pages that register an app: choose its kind, fill in its form, see its credentials."""

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.portal import Portal, fresh_client_id
from valetkey.authorization.actions.developer.presets import (
    PRESETS,
    AppKind,
    ConfigurationFile,
    Preset,
)
from valetkey.authorization.layout.addresses import DEVELOPER, NEW_APP
from valetkey.authorization.site.app_form.form import AppForm
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.secret import same
from valetkey.web.form import Form

_CLIENT_ID = re.compile(r"app_[A-Za-z0-9_-]{22}", re.ASCII)
_FRAME = "developer/frame.html"


class ChooseKindPage(Struct, frozen=True):
    """Choose the kind of app. Context of choose_kind.html, here and in the console.

    `barrier` says why the user may not register an app: nobody, unverified, uninvited, full.
    """

    template: ClassVar[str] = "app_form/choose_kind.html"

    kinds: tuple[str, ...]
    #: The presets of each of these kinds.
    presets: Mapping[str, tuple[Preset, ...]]
    barrier: str = ""
    most: int = 0
    action: str = NEW_APP
    #: The template of the area.
    frame: str = _FRAME


class NewAppPage(Struct, frozen=True):
    """The context of new.html. Its form posts `csrf`, `client_id`, its `mark`, and the fields."""

    template: ClassVar[str] = "app_form/new.html"
    scripts: ClassVar[tuple[str, ...]] = ("filter.js",)

    action: str
    client_id: str
    mark: str
    form: AppForm
    #: The chosen preset; None if only the kind was chosen.
    preset: Preset | None = None
    back: str = DEVELOPER
    #: The template of the area.
    frame: str = _FRAME


class RegisteredPage(Struct, frozen=True):
    """The context of registered.html; `secret` is shown once, "" if the app has none."""

    template: ClassVar[str] = "app_form/registered.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    name: str
    client_id: str
    issuer: str
    secret: str
    #: The page of the app.
    url: str
    #: The configuration for the chosen preset.
    files: tuple[ConfigurationFile, ...] = ()
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = _FRAME
    app: object = None


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


def kind_in(said: Form, portal: Portal) -> AppKind | None:
    """Return the chosen kind of app; None if it cannot be registered."""
    return next((kind for kind in portal.kinds if kind == said.get("kind")), None)


def preset_in(said: Form, kind: AppKind) -> Preset | None:
    """Return the chosen preset; None unless it is one of this kind."""
    found = PRESETS.get(said.get("preset") or "")
    return found if found is not None and found.kind is kind else None
