"""One app at a glance."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """What its developer needs most: its id, where it stands, and what to do next.

    `kind`: server, browser, device, machine. `proof` is how it proves who it is: client_secret,
    client_secret_jwt, private_key_jwt, none.
    """

    template: ClassVar[str] = "developer/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "times.js")

    app: AppHead
    #: The address of this server, which the app needs as well.
    issuer: str
    kind: str
    profile: str
    proof: str
    redirect_uris: tuple[str, ...]
    registered: When
    description: str = ""
    verified: bool = False
    #: What its people are asked for, each beginning with a verb.
    sentences: tuple[str, ...] = ()
    #: A secret came in an address since it was made.
    secret_seen: bool = False
    #: It has secrets, and none of them works.
    without_secret: bool = False
