"""What is known of a person: theirs to take along, and theirs to end."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class DataPage:
    """Offer the file. Posts `csrf` to `action`; the answer is the file."""

    template: ClassVar[str] = "account/person/data.html"

    action: str
    csrf: str
    #: Where the API is, which keeps more.
    api: str
    #: They proved a moment ago who they are, so that the button gives the file at once.
    proved: bool = False


@dataclass(frozen=True, slots=True)
class OwnedApp:
    """An app that would be nobody's."""

    client_id: str
    name: str


@dataclass(frozen=True, slots=True)
class RemovalPage:
    """Ask before the account goes. Posts `csrf` and `username` to `action`."""

    template: ClassVar[str] = "account/person/removal.html"

    action: str
    csrf: str
    username: str
    apps: int
    sessions: int
    #: Days in which one can change one's mind.
    days: int
    #: What must be given away or deleted before.
    owned: tuple[OwnedApp, ...] = ()
    #: Nobody else owns this server.
    last_owner: bool = False
    typed: str = ""
    #: What was typed is not the user name.
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class RemovalPlannedPage:
    """Say when it goes, to somebody who is signed out by now."""

    template: ClassVar[str] = "account/person/removal_planned.html"

    due: When
    sign_in_url: str
