"""The accounts at other servers from which a person signs in."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.visitor.federation.button import ProviderButton


@dataclass(frozen=True, slots=True)
class Connection:
    """One of them. `key` names it in the form that ends it."""

    key: str
    provider: str
    shown: str
    since: When
    last_used: When | None
    #: Whether another way in would stay.
    can_end: bool


@dataclass(frozen=True, slots=True)
class ConnectionsPage:
    """List them, end one, connect another. Ending posts `csrf` and `connection`."""

    template: ClassVar[str] = "visitor/federation/connections.html"

    action: str
    csrf: str
    connections: tuple[Connection, ...]
    #: Providers that can be connected.
    providers: tuple[ProviderButton, ...]
    #: Who has arrived from there just now, and whose name they have over there.
    arrived_from: str = ""
    arrived_as: str = ""
    #: The name of what was just connected, or ended, or belongs to somebody else.
    connected: str = ""
    ended: bool = False
    taken: str = ""
