"""The head of every page about one app: which app it is, and where its other pages are."""

from dataclasses import dataclass
from urllib.parse import quote

PLACE = "/developer/apps/"


@dataclass(frozen=True, slots=True)
class AppHead:
    """One app. The pages about it have it as `app`, and say as `here` which page they are."""

    client_id: str
    name: str
    logo_url: str = ""
    #: The visitor may change the team, and delete the app.
    owns: bool = False
    disabled: bool = False
    #: It proves who it is by a secret.
    has_secret: bool = False

    def at(self, way: str = "") -> str:
        """The address of one of its pages: `settings`; of the overview for "".

        Whatever letters its id has, this is one segment of a path.
        """
        place = PLACE + quote(self.client_id, safe="")
        return f"{place}/{way}" if way else place
