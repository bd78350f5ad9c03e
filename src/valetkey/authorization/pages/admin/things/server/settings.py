"""Settings: each with its value, where that comes from, and why it exists; and the brand."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One setting; `origin` is `default`, `file` or `environment`. Secrets are masked."""

    path: str
    name: str
    value: str
    origin: str
    default: str
    variable: str
    reason: str


@dataclass(frozen=True, slots=True)
class SettingSection:
    """The settings of one section."""

    name: str
    settings: tuple[SettingLine, ...]


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """All of them."""

    template: ClassVar[str] = "admin/things/server/settings.html"

    sections: tuple[SettingSection, ...]
    file: str
    brand_url: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class BrandFormPage:
    """Name, colour, logo and links, which change while the server runs; "" is as the file says."""

    template: ClassVar[str] = "admin/things/server/brand.html"

    action: str
    back: str
    csrf: str
    name: str
    accent: str
    logo_url: str
    terms_url: str
    privacy_url: str
    #: What is wrong with a field, by its name.
    faults: tuple[tuple[str, str], ...] = ()
