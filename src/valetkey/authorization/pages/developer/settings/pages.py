"""The pages on which an app is registered and changed."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.settings.form import AppForm


@dataclass(frozen=True, slots=True)
class ChooseKindPage:
    """Where the app runs: the one question on which everything else depends.

    `barrier` says why this person may not register one: nobody, unverified, uninvited, full.
    """

    template: ClassVar[str] = "developer/settings/choose_kind.html"

    kinds: tuple[str, ...]
    barrier: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class NewAppPage:
    """The form of a new app. Posts `csrf`, `client_id` with its `mark`, and the fields."""

    template: ClassVar[str] = "developer/settings/new.html"

    action: str
    csrf: str
    client_id: str
    mark: str
    form: AppForm


@dataclass(frozen=True, slots=True)
class RegisteredPage:
    """The app is registered; its `secret` is shown this once, "" where it has none."""

    template: ClassVar[str] = "developer/settings/registered.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    issuer: str
    secret: str


@dataclass(frozen=True, slots=True)
class LegacySwitch:
    """Something of old: `name` is implicit, password, query or no_pkce."""

    name: str
    on: bool


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """The form of an app there is. Posts `csrf`, `version`, and the fields.

    `others` are the names of the fields that somebody else changed meanwhile.
    """

    template: ClassVar[str] = "developer/settings/edit.html"

    app: AppHead
    action: str
    csrf: str
    version: str
    form: AppForm
    legacy: tuple[LegacySwitch, ...] = ()
    saved: bool = False
    #: It is verified, which a change of its looks ends.
    verified: bool = False
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropLegacyPage:
    """Ask before a grant type of old is taken from the app. Posts `csrf` and `grant_type`."""

    template: ClassVar[str] = "developer/settings/drop_legacy.html"

    app: AppHead
    action: str
    csrf: str
    grant_type: str


@dataclass(frozen=True, slots=True)
class DeleteAppPage:
    """Ask before the app ends, by its name. Posts `csrf` and `name`.

    So many people are connected, by so many authorizations that live.
    """

    template: ClassVar[str] = "developer/settings/delete.html"

    app: AppHead
    action: str
    csrf: str
    people: int
    authorizations: int
    typed: str = ""
    wrong: bool = False
