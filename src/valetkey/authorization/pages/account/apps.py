"""Connected apps: what each may do, and the question before it ends."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class AppLine:
    """One connected app. Each of `sentences` starts with a verb: "read your notes"."""

    client_id: str
    name: str
    domain: str
    sentences: tuple[str, ...]
    since: When
    #: None where it has no access now and only need not ask again.
    last_used: When | None
    #: It goes on while the person is signed out.
    outlasts: bool
    logo_url: str = ""


@dataclass(frozen=True, slots=True)
class AppsPage:
    """List them. `ended` is the name of the one that just lost its access."""

    template: ClassVar[str] = "account/apps.html"

    apps: tuple[AppLine, ...]
    ended: str = ""
    #: All of them just lost it.
    all_ended: bool = False


@dataclass(frozen=True, slots=True)
class EndAppPage:
    """Ask before it ends. Posts `csrf` and `app`, to `action`."""

    template: ClassVar[str] = "account/end_app.html"

    action: str
    csrf: str
    app: AppLine


@dataclass(frozen=True, slots=True)
class EndAppsPage:
    """The same for all of them. Posts `csrf`."""

    template: ClassVar[str] = "account/end_apps.html"

    action: str
    csrf: str
    apps: tuple[AppLine, ...]
