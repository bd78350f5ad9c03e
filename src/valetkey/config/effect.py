"""When a changed setting takes effect: at once, after a reload, or after a restart."""

from enum import StrEnum

from valetkey.config.sections.portal import BrandField

PINNED = ("url", "listen", "workers")
"""Of each server: the supervisor holds the sockets and passes them to the workers."""

SHARED = ("database", "keyring", "keyring_text", "credential", "credential_text")
"""Of each server: workers with different databases or keys would contradict each other."""

METRICS_LISTEN = "metrics.listen"
"""The supervisor holds this socket, too."""

_SERVERS = ("authorization", "resource")


class Effect(StrEnum):
    """The way in which a change of a setting takes effect."""

    CONSOLE = "console"  # changed in the console, effective within seconds
    RELOAD = "reload"  # `valetkey reload`
    RESTART = "restart"


def effect_of(path: str) -> Effect:
    """Return how a change of the setting with this path takes effect."""
    section, _, name = path.partition(".")
    if section == "brand" and name in {*BrandField}:
        return Effect.CONSOLE
    if path == METRICS_LISTEN or (section in _SERVERS and name in {*PINNED, *SHARED}):
        return Effect.RESTART
    return Effect.RELOAD
