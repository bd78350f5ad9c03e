"""A link to another server at which one may sign in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProviderButton:
    """What it is called, and where it leads: an address of this server."""

    id: str
    name: str
    url: str
