"""The parts of the brand that can be changed while the server runs."""

from enum import StrEnum


class BrandField(StrEnum):
    """One of them, called as its setting under `brand`."""

    NAME = "name"
    ACCENT = "accent"
    LOGO_URL = "logo_url"
    TERMS_URL = "terms_url"
    PRIVACY_URL = "privacy_url"
