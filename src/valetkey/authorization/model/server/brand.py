"""The settings of the brand that can be changed at runtime."""

from enum import StrEnum


class BrandField(StrEnum):
    """A setting under `brand`."""

    NAME = "name"
    ACCENT = "accent"
    LOGO_URL = "logo_url"
    TERMS_URL = "terms_url"
    PRIVACY_URL = "privacy_url"
