"""When a changed setting takes effect: at once, after a reload, or after a restart."""

from enum import StrEnum

from valetkey.config.features import feature_sections
from valetkey.config.sections.portal import BrandField

PINNED = ("url", "listen", "workers")
"""Of each server: the supervisor holds the sockets and passes them to the workers."""

SHARED = ("database", "keyring", "keyring_text", "credential", "credential_text")
"""Of each server: workers with different databases or keys would contradict each other."""

METRICS_LISTEN = "metrics.listen"
"""The supervisor holds this socket, too."""

CHANGEABLE = (
    "tokens",
    "clients",
    "registration",
    "portal",
    "accounts",
    "sessions",
    "administration",
    "factors",
    "privacy",
)
"""Sections that only the authorization server reads: administrators change them at runtime.

So are those of features, without what is in the `FILE_ONLY` of the section.
"""

FILE_ONLY = frozenset(
    {
        "tokens.claims_file",
        "tokens.signing_algorithms",
        "tokens.identity_assertions",
        "privacy.geo_database",
    }
)
"""Of these sections: paths, keys, and trust in other servers' assertions."""

_SERVERS = ("authorization", "resource")


def is_changeable(path: str) -> bool:
    """Return whether administrators can change the setting with this path while servers run."""
    section, _, name = path.partition(".")
    if kind := feature_sections().get(section):
        return name not in getattr(kind, "FILE_ONLY", ())
    return section in CHANGEABLE and path not in FILE_ONLY


class Effect(StrEnum):
    """The way in which a change of a setting takes effect."""

    CONSOLE = "console"  # changed in the console, effective within seconds
    RELOAD = "reload"  # `valetkey reload`
    RESTART = "restart"


def effect_of(path: str) -> Effect:
    """Return how a change of the setting with this path takes effect."""
    section, _, name = path.partition(".")
    if (section == "brand" and name in {*BrandField}) or is_changeable(path):
        return Effect.CONSOLE
    if path == METRICS_LISTEN or (section in _SERVERS and name in {*PINNED, *SHARED}):
        return Effect.RESTART
    return Effect.RELOAD
