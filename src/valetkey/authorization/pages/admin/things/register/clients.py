"""Apps: search, filter, one page after the other."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One of them."""

    name: str
    client_id: str
    url: str
    type: str
    profile: str
    since: When
    disabled: bool = False
    verified: bool = False
    self_registered: bool = False
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class ClientsPage:
    """List them; the form asks by GET for `q` and the filters."""

    template: ClassVar[str] = "admin/things/register/clients.html"

    action: str
    text: str
    #: What is chosen in each filter, "" for all.
    chosen: dict[str, str]
    listed: tuple[ClientRow, ...]
    narrowed: bool = False
    deleted: bool = False
    #: Where the list goes on, and where it begins; "" where it does not.
    more: str = ""
    first: str = ""
