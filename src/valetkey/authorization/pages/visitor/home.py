"""The page at the root: whose server this is, and who you are."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.who import SignedInPerson


@dataclass(frozen=True, slots=True)
class OwnApp:
    """An app that the person allowed something and can open from here."""

    name: str
    domain: str
    #: An address of this server that leads to the app.
    url: str


@dataclass(frozen=True, slots=True)
class HomePage:
    """Name the server and, if someone is signed in, who. Signing out posts `csrf`."""

    template: ClassVar[str] = "visitor/home.html"

    sign_out_action: str
    csrf: str
    person: SignedInPerson | None = None
    #: Where someone who is not signed in can do so; empty to offer no link.
    sign_in_url: str = ""
    apps: tuple[OwnApp, ...] = ()
