"""Connected apps: what each may do, and the question before it ends."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


class Used(StrEnum):
    """What is known of the use of a permission."""

    YES = "yes"  # last at a known moment
    NEVER = "never"  # not since the app was connected
    NOT_SINCE = "not_since"  # not since a known moment; before that nobody looked
    UNKNOWN = "unknown"  # nobody reports of it
    TOLD = "told"  # the app learns it at each sign-in


@dataclass(frozen=True, slots=True)
class PermissionLine:
    """What an app may do: a sentence that starts with a verb, and whether it ever did."""

    sentence: str
    used: Used = Used.UNKNOWN
    #: With YES and NOT_SINCE.
    when: When | None = None


@dataclass(frozen=True, slots=True)
class AppLine:
    """One connected app."""

    client_id: str
    name: str
    domain: str
    permissions: tuple[PermissionLine, ...]
    since: When
    #: None where it has no access now and only need not ask again.
    last_used: When | None
    #: It goes on while the person is signed out.
    outlasts: bool
    logo_url: str = ""


@dataclass(frozen=True, slots=True)
class AppsPage:
    """List them. `ended` is the name of the one that just lost its access."""

    template: ClassVar[str] = "account/apps/apps.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    apps: tuple[AppLine, ...]
    ended: str = ""
    #: All of them just lost it.
    all_ended: bool = False


@dataclass(frozen=True, slots=True)
class Connection:
    """One time that the person said yes, and the browser it was in, "" where nobody knows."""

    browser: str
    system: str
    since: When
    last_used: When
    ends: When
    #: It goes on while the person is signed out.
    outlasts: bool
    #: It was in the browser that looks at the page.
    here: bool = False


@dataclass(frozen=True, slots=True)
class AppPage:
    """Everything about one of them."""

    template: ClassVar[str] = "account/apps/app.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppLine
    description: str
    verified: bool
    #: It registered itself, and nobody who runs this server has looked at it.
    self_registered: bool
    policy_url: str
    terms_url: str
    connections: tuple[Connection, ...]


@dataclass(frozen=True, slots=True)
class EndAppPage:
    """Ask before it ends. Posts `csrf` and `app`, to `action`."""

    template: ClassVar[str] = "account/apps/end_app.html"

    action: str
    csrf: str
    app: AppLine


@dataclass(frozen=True, slots=True)
class EndAppsPage:
    """The same for all of them. Posts `csrf`."""

    template: ClassVar[str] = "account/apps/end_apps.html"

    action: str
    csrf: str
    apps: tuple[AppLine, ...]
